use super::*;
use crate::routes::get;

#[tokio::test(start_paused = true)]
async fn a_watch_ends_with_the_rights_of_its_caller() {
    let issued = token("ci", &[Role::Read], &["*"]);
    let other = token("ci", &[Role::Read], &["*"]);
    let endless =
        || async { Body::from_stream(futures::stream::pending::<Result<String, axum::Error>>()) };
    let watch = async |setup: &Setup| {
        let access = Access::Role(&[Role::Read], Scope::Query);
        let rules = Rules::default().with_authenticator(setup.authenticator.clone());
        let router = router([get("/v1/watch", access, endless)], rules);
        let response = call(&router, request("GET", "/v1/watch", Some(&issued))).await;
        assert_eq!(response.status(), StatusCode::OK);
        response
    };
    // A change of other records changes nothing; a change of its own record ends the watch.
    let mut setup = Setup::new(&file(&[&issued]));
    let watching = tokio::spawn(text(watch(&setup).await));
    setup.change(&file(&[&issued, &other]).to_toml().unwrap());
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!watching.is_finished());
    setup.change(&file(&[&other]).to_toml().unwrap());
    assert_eq!(watching.await.unwrap(), "");

    let mut narrowed = file(&[&issued]);
    setup.change(&narrowed.to_toml().unwrap());
    let watching = tokio::spawn(text(watch(&setup).await));
    narrowed.tokens[0].namespaces = vec!["team-a".parse().unwrap()];
    setup.change(&narrowed.to_toml().unwrap());
    assert_eq!(watching.await.unwrap(), "");
}

#[tokio::test]
async fn a_watch_ends_when_its_token_expires() {
    let mut issued = token("ci", &[Role::Read], &["*"]);
    issued.record.expires = Some(now().minus(Span::from_seconds(1)));
    let register = Arc::new(Register::from(file(&[&issued])));
    let (_sender, receiver) = tokio::sync::watch::channel(register);
    let credential = Credential::Token { id: issued.record.id.clone(), hash: issued.record.hash };
    let principal = Principal::new("ci", &[Role::Read], &[Pattern::all()]);
    crate::auth::until_revoked(receiver, credential, principal).await;
}
