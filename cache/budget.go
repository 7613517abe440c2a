package cache

// BudgetOptions says how much memory the mappings of a file system may take.
type BudgetOptions struct {
	Limit      int64  // bytes of folio memory, copies for writers included; never passed. 0: 64 MiB
	Background int64  // dirty bytes past which Wake is called. 0: a quarter of Limit
	Wake       func() // starts writeback; must not block, nor call into the cache. nil: nobody is told
}

// Budget is the memory that the mappings of a file system share.
type Budget struct {
	o BudgetOptions
}

// NewBudget returns a budget with nothing in it.
func NewBudget(o BudgetOptions) *Budget { return &Budget{o: o} }

// Used returns the bytes of folio memory in use: clean, dirty, in writeback, copies.
func (b *Budget) Used() int64 { return 0 }

// Dirty returns the bytes of all dirty blocks.
func (b *Budget) Dirty() int64 { return 0 }

// Stats returns the sums over all mappings that the budget has had.
func (b *Budget) Stats() Stats { return Stats{} }
