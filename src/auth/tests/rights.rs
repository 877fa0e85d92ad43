use super::*;

#[tokio::test]
async fn each_role_may_call_what_the_table_says_and_nothing_else() {
    let everywhere = Role::ALL.map(|role| token("e", &[role], &["*"]));
    let in_team = Role::ALL.map(|role| token("t", &[role], &["team-*"]));
    let all: Vec<_> = everywhere.iter().chain(&in_team).collect();
    let setup = Setup::new(&file(&all));
    let router = setup.router();
    let specs = specs();
    assert!(specs.len() > 50, "{specs:?}");
    for spec in specs {
        let (method, path) = (spec.method.as_str(), spec.path);
        let (roles, scope) = match spec.access {
            Access::Public => continue,
            Access::Authenticated => (&[][..], None),
            Access::Role(roles, scope) => (roles, Some(scope)),
        };
        let at = |namespace: &str| {
            let path = path.replace("{namespace}", namespace);
            path.replace("{name}", "q").replace("{uid}", "u").replace("{*path}", "x")
        };
        // The requested namespace, and whether a role in the team's pattern suffices for it.
        let requests: &[(String, bool)] = match scope {
            None | Some(Scope::Items | Scope::Readable) => &[(at("other"), true)],
            Some(Scope::Everywhere) => &[(at("team-a"), false)],
            Some(Scope::Path) => {
                &[(at("team-a"), true), (at("other"), false), (at("team%2Da"), true)]
            }
            Some(Scope::Query) => &[
                (format!("{path}?namespace=team-a"), true),
                (format!("{path}?names%70ace=team%2Da&limit=1"), true),
                (format!("{path}?namespace=other"), false),
                (format!("{path}?namespace=team-a&namespace=other"), false),
                (format!("{path}?namespace="), true),
                (format!("{path}?limit=1"), true),
            ],
        };
        for (uri, team_suffices) in requests {
            for (index, role) in Role::ALL.into_iter().enumerate() {
                let has_role = roles.is_empty() || roles.contains(&role);
                for (issued, reaches) in
                    [(&everywhere[index], true), (&in_team[index], *team_suffices)]
                {
                    let response = call(&router, request(method, uri, Some(issued)));
                    let status = response.await.status();
                    let expected = match has_role && reaches {
                        true => StatusCode::OK,
                        false => StatusCode::FORBIDDEN,
                    };
                    let namespaces = &issued.record.namespaces;
                    assert_eq!(status, expected, "{method} {uri} as {role} in {namespaces:?}");
                }
            }
            let response = call(&router, request(method, uri, None)).await;
            assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "{method} {uri}");
        }
    }
}

#[test]
fn the_table_says_where() {
    for spec in specs() {
        let names_one = spec.path.contains("{namespace}");
        let is_of_one = matches!(spec.access, Access::Role(_, Scope::Path));
        assert_eq!(is_of_one, names_one, "{}", spec.path);
        if let Access::Role(roles, _) = spec.access {
            assert!(!roles.is_empty(), "nobody may call {}", spec.path);
        }
    }
}

#[tokio::test]
async fn what_is_not_in_the_table_nobody_may_do() {
    let root = token("root", &Role::ALL, &["*"]);
    let setup = Setup::new(&file(&[&root]));
    let status = async |method: &str, path: &str| {
        let request = request(method, path, Some(&root));
        call(&setup.router(), request).await.status()
    };
    assert_eq!(status("PATCH", "/v1/quotas").await, StatusCode::FORBIDDEN);
    assert_eq!(status("HEAD", "/v1/quotas").await, StatusCode::OK);
    assert_eq!(status("GET", "/nowhere").await, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn refusals_are_problems() {
    let team = token("ci", &[Role::Read], &["team-*"]);
    let mut expired = token("ci", &[Role::Read], &["*"]);
    expired.record.expires = Some(Timestamp::EPOCH);
    let stranger = token("ci", &[Role::Read], &["*"]);
    let setup = Setup::new(&file(&[&team, &expired]));
    let called = async |issued: Option<&Issued>, method: &str, path: &str| {
        call(&setup.router(), request(method, path, issued)).await
    };
    let mut bodies = Vec::new();
    for issued in [None, Some(&expired), Some(&stranger)] {
        let response = called(issued, "GET", "/v1/quotas").await;
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
        assert_eq!(response.headers()["www-authenticate"], "Bearer realm=\"quotad\"");
        assert_eq!(response.headers()["content-type"], "application/problem+json");
        bodies.push(text(response).await);
    }
    assert!(bodies.iter().all(|body| *body == bodies[0]), "{bodies:?}");
    assert!(bodies[0].contains("\"reason\":\"Unauthorized\""), "{}", bodies[0]);

    for (method, path, detail) in [
        ("GET", "/v1/namespaces/other/usage", "ci needs the role read in the namespace other"),
        ("POST", "/v1/drift", "ci needs the role read in all namespaces"),
        (
            "POST",
            "/v1/namespaces/team-a/reservations",
            "ci needs the role reserve in the namespace team-a",
        ),
        ("PATCH", "/v1/quotas", "nobody may PATCH /v1/quotas"),
    ] {
        let response = called(Some(&team), method, path).await;
        assert_eq!(response.status(), StatusCode::FORBIDDEN);
        let problem = json(response).await;
        assert_eq!(problem["reason"], "Forbidden");
        assert_eq!(problem["detail"], detail);
    }
}

#[tokio::test]
async fn kubernetes_clients_are_told_in_their_words() {
    let team = token("ci", &[Role::Read], &["team-*"]);
    let setup = Setup::new(&file(&[&team]));
    let called = async |issued: Option<&Issued>, method: &str, path: &str| {
        json(call(&setup.router(), request(method, path, issued)).await).await
    };
    let path = "/api/v1/namespaces/other/resourcequotas";
    let status = called(None, "GET", path).await;
    let expected = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "Unauthorized", "reason": "Unauthorized", "code": 401,
    });
    assert_eq!(status, expected);

    let cannot = "User \"ci\" cannot";
    let resource = "resource \"resourcequotas\" in API group \"\"";
    for (method, path, message) in [
        (
            "GET",
            path,
            format!(
                "resourcequotas is forbidden: {cannot} list {resource} in the namespace \"other\""
            ),
        ),
        (
            "GET",
            "/api/v1/namespaces/other/resourcequotas?watch=true",
            format!(
                "resourcequotas is forbidden: {cannot} watch {resource} in the namespace \"other\""
            ),
        ),
        (
            "PATCH",
            "/api/v1/namespaces/team-a/resourcequotas/q",
            format!(
                "resourcequotas \"q\" is forbidden: {cannot} patch {resource} in the namespace \"team-a\""
            ),
        ),
        (
            "POST",
            "/apis/quota.openshift.io/v1/clusterresourcequotas",
            format!(
                "clusterresourcequotas.quota.openshift.io is forbidden: {cannot} create resource \
                 \"clusterresourcequotas\" in API group \"quota.openshift.io\" at the cluster scope"
            ),
        ),
        ("POST", "/version", format!("forbidden: {cannot} post path \"/version\"")),
    ] {
        let status = called(Some(&team), method, path).await;
        assert_eq!(status["message"], message);
        assert_eq!(status["reason"], "Forbidden");
        assert_eq!(status["code"], 403);
    }
    let status = called(Some(&team), "DELETE", "/api/v1/namespaces/other/resourcequotas/q").await;
    assert_eq!(status["details"], serde_json::json!({"name": "q", "kind": "resourcequotas"}));
}
