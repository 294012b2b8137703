package metadata

import (
	"encoding/binary"
	"iter"

	iradix "github.com/hashicorp/go-immutable-radix"
)

// tree is a persistent map from byte strings to V, in the order of the keys. Deriving one
// from another shares all but the path to what changed.
type tree[V any] struct {
	t *iradix.Tree
}

func newTree[V any]() tree[V] { return tree[V]{iradix.New()} }

func (t tree[V]) len() int { return t.t.Len() }

func (t tree[V]) get(key []byte) (V, bool) { return as[V](t.t.Get(key)) }

// all yields the values in the order of their keys.
func (t tree[V]) all() iter.Seq[V] {
	return func(yield func(V) bool) {
		t.t.Root().Walk(func(_ []byte, v any) bool { return !yield(v.(V)) })
	}
}

func (t tree[V]) edit() draft[V] { return draft[V]{t.t.Txn()} }

// draft is a tree that is being changed, by one goroutine.
type draft[V any] struct {
	txn *iradix.Txn
}

func (d draft[V]) get(key []byte) (V, bool) { return as[V](d.txn.Get(key)) }

func (d draft[V]) set(key []byte, v V) { d.txn.Insert(key, v) }

func (d draft[V]) remove(key []byte) { d.txn.Delete(key) }

// all yields the values in the order of their keys; the draft must not change meanwhile.
func (d draft[V]) all() iter.Seq[V] {
	return func(yield func(V) bool) {
		d.txn.Root().Walk(func(_ []byte, v any) bool { return !yield(v.(V)) })
	}
}

// freeze gives the tree as it is now; the draft may be changed further.
func (d draft[V]) freeze() tree[V] { return tree[V]{d.txn.CommitOnly()} }

func as[V any](v any, ok bool) (V, bool) {
	if !ok {
		var zero V
		return zero, false
	}
	return v.(V), true
}

// The keys of the trees.

func int32Key(n int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

func resourceKey(r Resource) []byte { return append([]byte{byte(r.Type)}, r.Name...) }
