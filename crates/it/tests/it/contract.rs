//! Every store keeps every promise.

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
