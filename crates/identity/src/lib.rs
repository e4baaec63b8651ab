//! Who a caller is, proved by a token.
