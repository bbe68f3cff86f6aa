//! Every store keeps every promise, and says clearly why when it cannot.

mod accounts;
mod application;
mod backlog;
mod plans;
mod refusals;
mod sharing;

mod memory {
    it::contract!(it::ground::memory);
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
