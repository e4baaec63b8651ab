//! What the profiles say, held against the pages that describe them.

mod codes;
mod deny_list;
mod page;
mod profiles;
