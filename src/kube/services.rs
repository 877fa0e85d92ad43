//! Services: the ledger has none. `kubectl cluster-info` lists the cluster's services before it prints the API's
//! address.

use axum::Json;
use serde_json::{Value, json};

use super::{
    VERSION,
    params::Params,
    status::{Failure, Result},
};

/// The kind's plural in paths.
pub(super) const SERVICES: &str = "services";
/// The kind.
pub(super) const SERVICE_KIND: &str = "Service";

/// The empty list, for any selector.
///
/// # Errors
/// For a watch, which would never end.
pub(super) async fn list(params: Params) -> Result<Json<Value>> {
    if params.watch {
        return Err(Failure::method_not_allowed());
    }
    Ok(Json(json!({
        "kind": format!("{SERVICE_KIND}List"), "apiVersion": VERSION, "metadata": {"resourceVersion": ""},
        "items": [],
    })))
}
