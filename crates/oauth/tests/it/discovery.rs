//! What a server says about where to log in is refused where it weakens the login.

use serde_json::{Value, json};
use toolgate_oauth::{LoginError, plan_login};

use crate::fixture::{SECRET, Shared, options, refused, serve};

#[tokio::test]
async fn the_plan_says_where_and_for_what() {
    let servers = serve().await;
    let plan = plan_login(options(&servers)).await.unwrap();
    let origin = servers.lock().unwrap().origin.clone();
    assert_eq!((plan.issuer(), plan.resource()), (origin.as_str(), format!("{origin}/mcp").as_str()));
    assert_eq!(plan.scopes(), ["issues:read"]);
    // Nothing was registered or asked for yet.
    assert!(servers.lock().unwrap().seen.iter().all(|(path, _)| path != "/register" && path != "/token"));
}

#[tokio::test]
async fn without_a_challenge_the_well_known_metadata_counts() {
    let servers = serve().await;
    servers.lock().unwrap().challenge = "Bearer".to_owned();
    servers.lock().unwrap().resource["scopes_supported"] = json!(["a", "b"]);
    assert_eq!(plan_login(options(&servers)).await.unwrap().scopes(), ["a", "b"]);
}

/// The error when one member of a document is another.
async fn with(change: impl FnOnce(&mut Value, &mut Value, &str)) -> LoginError {
    let servers = serve().await;
    {
        let mut servers = servers.lock().unwrap();
        let origin = servers.origin.clone();
        let (mut resource, mut metadata) = (servers.resource.clone(), servers.metadata.clone());
        change(&mut resource, &mut metadata, &origin);
        (servers.resource, servers.metadata) = (resource, metadata);
    }
    let error = refused(&servers).await;
    assert!(servers.lock().unwrap().seen.iter().all(|(path, _)| path != "/register" && path != "/token"));
    error
}

#[tokio::test]
async fn a_downgrade_is_refused() {
    for methods in [json!(null), json!([]), json!(["plain"])] {
        let error =
            with(|_, metadata, _| metadata["code_challenge_methods_supported"] = methods.clone()).await;
        assert!(matches!(error, LoginError::Downgrade { .. }), "{error}");
    }
}

#[tokio::test]
async fn metadata_that_is_of_another_server_is_refused() {
    let error = with(|_, metadata, _| metadata["issuer"] = json!("https://login.example")).await;
    assert!(error.to_string().contains("it is of `https://login.example`"), "{error}");
    let error = with(|resource, _, _| resource["resource"] = json!("https://other.example/mcp")).await;
    assert!(error.to_string().contains("it is for `https://other.example/mcp`"), "{error}");
    let error = with(|resource, _, origin| resource["resource"] = json!(format!("{origin}/mcp/more"))).await;
    assert!(error.to_string().contains("it is for"), "{error}");
}

#[tokio::test]
async fn addresses_that_a_server_may_not_lead_to_are_not_requested() {
    for address in [
        "https://10.0.0.1",
        "https://169.254.169.254",
        "http://login.example",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "https://[fd00:ec2::254]",
    ] {
        let error = with(|resource, _, _| resource["authorization_servers"] = json!([address])).await;
        assert!(matches!(error, LoginError::Address { .. }), "{address}: {error}");
        for name in
            ["authorization_endpoint", "token_endpoint", "registration_endpoint", "revocation_endpoint"]
        {
            let error = with(|_, metadata, _| metadata[name] = json!(address)).await;
            assert!(matches!(error, LoginError::Address { .. }), "{name} {address}: {error}");
        }
    }
    let servers = serve().await;
    servers.lock().unwrap().challenge =
        "Bearer resource_metadata=\"http://169.254.169.254/latest\"".to_owned();
    assert!(matches!(refused(&servers).await, LoginError::Address { .. }));
}

#[tokio::test]
async fn an_address_for_the_browser_means_nothing_to_a_shell() {
    for path in ["$(touch pwned)", "`id`", "a;id", "a|id", "a'b", "a\"b", "a\\b", "a&&b;c"] {
        let error = with(|_, metadata, origin| {
            metadata["authorization_endpoint"] = json!(format!("{origin}/{path}"));
        });
        let error = error.await;
        assert!(matches!(error, LoginError::Address { .. }), "{path}: {error}");
    }
}

async fn redirected(to: &str) -> (Shared, Result<(), LoginError>) {
    let servers = serve().await;
    let origin = servers.lock().unwrap().origin.clone();
    servers.lock().unwrap().resource_redirect = Some(to.replace("ORIGIN", &origin));
    let planned = plan_login(options(&servers)).await.map(|_| ());
    (servers, planned)
}

#[tokio::test]
async fn metadata_is_bounded_in_size_and_redirects() {
    let servers = serve().await;
    servers.lock().unwrap().padding = 1 << 20;
    assert!(refused(&servers).await.to_string().contains("too long"));
    let other = serve().await;
    let elsewhere = format!("{}/prm", other.lock().unwrap().origin);
    for to in ["ORIGIN/prm", "https://10.0.0.1/", elsewhere.as_str()] {
        let (_, planned) = redirected(to).await;
        assert!(planned.unwrap_err().to_string().contains("redirects"), "{to}");
    }
    assert!(other.lock().unwrap().seen.is_empty());
    let (_, planned) = redirected("ORIGIN/endless").await;
    assert!(planned.unwrap_err().to_string().contains("too long"));
}

#[tokio::test]
async fn errors_quote_no_hidden_characters() {
    let error =
        with(|resource, _, _| resource["resource"] = json!(format!("\u{1b}[2J\u{202e}{SECRET}"))).await;
    let text = error.to_string();
    assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text:?}");
}
