//! Every store keeps every promise, and says clearly why when it cannot.

mod accounts;
mod application;
mod backlog;
mod competing;
mod plans;
mod refusals;
mod sharing;

mod memory {
    it::contract!(it::ground::memory);
}

mod memory_competing {
    it::contract!(it::ground::memory_competing);
}

mod sqlite {
    it::contract!(it::ground::sqlite);
}

mod postgres {
    it::contract!(it::ground::postgres);
}

mod postgres_unshared {
    it::contract!(it::ground::postgres_unshared);
}

mod postgres_18 {
    it::contract!(it::ground::postgres_18);
}

mod postgres_skip_locked {
    it::contract!(it::ground::postgres_skip_locked);
}

mod postgres_cas {
    it::contract!(it::ground::postgres_cas);
}
