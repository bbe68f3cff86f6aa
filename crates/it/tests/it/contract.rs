//! Every store keeps every promise.

mod memory {
    it::contract!(it::ground::memory);
}

mod sqlite {
    it::contract!(it::ground::sqlite);
}
