//! The models that can be used: as requested, as configured, or as the environment suggests.

mod catalogue;
mod keys;
mod handle;
mod cost;
mod listing;

pub use catalogue::{DEMO_SCRIPT, SCRIPTED};
pub(crate) use catalogue::{DeclaredProvider, KeyLocation};
pub(crate) use catalogue::{ModelSource, ProviderCatalogue, no_model};
pub use cost::token_cost;
pub use handle::{ModelHandle, load_script, serve};
pub(crate) use handle::{installed_model, nonempty_variable};
pub use listing::{ProviderModels, chosen_model, list_models, unusable_keys};
