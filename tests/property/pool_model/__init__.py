"""Several GPU consumers on one pool, as a seeded model: runner, settler, scheduler, owner, index and ledger are the
real ones; broker, group, store and engines are a few lines each; time is virtual, so an hour takes a second, and a seed
always gives the same history.
"""
