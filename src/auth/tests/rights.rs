use super::*;

/// The table of `docs/security.md`: method and path, roles, where.
fn documented() -> Vec<(&'static str, &'static str, Vec<Role>, &'static str)> {
    let page = include_str!("../../../docs/security.md");
    let table = page.split("<!-- table of access -->\n").nth(1).unwrap();
    let rows = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let row = |line: &'static str| {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let (method, path) = cells[1].trim_matches('`').split_once(' ').unwrap();
        let roles = match cells[2] {
            "anybody known" => Vec::new(),
            roles => roles
                .split(", ")
                .map(|name| *Role::ALL.iter().find(|role| role.as_str() == name).unwrap())
                .collect(),
        };
        (method, path, roles, cells[3])
    };
    rows.map(row).collect()
}

#[tokio::test]
async fn each_role_may_call_what_is_documented_and_nothing_else() {
    let everywhere = Role::ALL.map(|role| token("e", &[role], &["*"]));
    let in_team = Role::ALL.map(|role| token("t", &[role], &["team-*"]));
    let all: Vec<_> = everywhere.iter().chain(&in_team).collect();
    let setup = Setup::new(&file(&all));
    let router = setup.router();
    let rows = documented();
    assert_eq!(
        rows.len(),
        RULES.len(),
        "a call is missing in the docs, or there by mistake"
    );
    for (method, path, roles, place) in rows {
        let method = if method == "*" { "OPTIONS" } else { method };
        let at = |namespace: &str| {
            let path = path.replace("{namespace}", namespace);
            path.replace("{name}", "q")
                .replace("{uid}", "u")
                .replace("{*path}", "x")
        };
        // Namespace asked for, and whether patterns of a team suffice for it.
        let asked: &[(String, bool)] = match place {
            "" | "the namespace of each item" => &[(at("other"), true)],
            "all namespaces" => &[(at("team-a"), false)],
            "the namespace" => &[
                (at("team-a"), true),
                (at("other"), false),
                (at("team%2Da"), true),
            ],
            "the namespace asked for, else all namespaces" => &[
                (format!("{path}?namespace=team-a"), true),
                (format!("{path}?names%70ace=team%2Da&limit=1"), true),
                (format!("{path}?namespace=other"), false),
                (format!("{path}?namespace=team-a&namespace=other"), false),
                (format!("{path}?namespace="), false),
                (format!("{path}?limit=1"), false),
            ],
            other => panic!("{other}"),
        };
        for (uri, team_suffices) in asked {
            for (index, role) in Role::ALL.into_iter().enumerate() {
                let has_role = roles.is_empty() || roles.contains(&role);
                for (issued, reaches) in [
                    (&everywhere[index], true),
                    (&in_team[index], *team_suffices),
                ] {
                    let response = router.clone().oneshot(request(method, uri, Some(issued)));
                    let status = response.await.unwrap().status();
                    let expected = match has_role && reaches {
                        true => StatusCode::OK,
                        false => StatusCode::FORBIDDEN,
                    };
                    let namespaces = &issued.record.namespaces;
                    assert_eq!(
                        status, expected,
                        "{method} {uri} as {role} in {namespaces:?}"
                    );
                }
            }
            let response = router
                .clone()
                .oneshot(request(method, uri, None))
                .await
                .unwrap();
            assert_eq!(
                response.status(),
                StatusCode::UNAUTHORIZED,
                "{method} {uri}"
            );
        }
    }
}

#[test]
fn the_table_says_where() {
    for rule in RULES {
        let names_one = rule.path.contains("{namespace}");
        assert_eq!(rule.scope == Scope::Path, names_one, "{}", rule.path);
        assert_eq!(
            rule.roles.is_empty(),
            rule.scope == Scope::None,
            "{}",
            rule.path
        );
    }
}

#[tokio::test]
async fn what_is_not_listed_nobody_may_do() {
    let root = token("root", &Role::ALL, &["*"]);
    let setup = Setup::new(&file(&[&root]));
    let call = async |method: &str, path: &str| {
        setup
            .router()
            .oneshot(request(method, path, Some(&root)))
            .await
            .unwrap()
    };
    assert_eq!(
        call("GET", "/v1/unlisted").await.status(),
        StatusCode::FORBIDDEN
    );
    assert_eq!(
        call("PATCH", "/v1/quotas").await.status(),
        StatusCode::FORBIDDEN
    );
    assert_eq!(call("HEAD", "/v1/quotas").await.status(), StatusCode::OK);
    assert_eq!(
        call("GET", "/nowhere").await.status(),
        StatusCode::NOT_FOUND
    );
}

#[tokio::test]
async fn refusals_are_problems() {
    let team = token("ci", &[Role::Read], &["team-*"]);
    let mut expired = token("ci", &[Role::Read], &["*"]);
    expired.record.expires = Some(Timestamp::EPOCH);
    let stranger = token("ci", &[Role::Read], &["*"]);
    let setup = Setup::new(&file(&[&team, &expired]));
    let call = async |issued: Option<&Issued>, method: &str, path: &str| {
        setup
            .router()
            .oneshot(request(method, path, issued))
            .await
            .unwrap()
    };
    let mut bodies = Vec::new();
    for issued in [None, Some(&expired), Some(&stranger)] {
        let response = call(issued, "GET", "/v1/quotas").await;
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
        assert_eq!(
            response.headers()["www-authenticate"],
            "Bearer realm=\"quotad\""
        );
        assert_eq!(
            response.headers()["content-type"],
            "application/problem+json"
        );
        bodies.push(text(response).await);
    }
    assert!(bodies.iter().all(|body| *body == bodies[0]), "{bodies:?}");
    assert!(
        bodies[0].contains("\"reason\":\"Unauthorized\""),
        "{}",
        bodies[0]
    );

    for (method, path, detail) in [
        (
            "GET",
            "/v1/namespaces/other/usage",
            "ci needs the role read in the namespace other",
        ),
        (
            "GET",
            "/v1/quotas",
            "ci needs the role read in all namespaces",
        ),
        (
            "POST",
            "/v1/namespaces/team-a/reservations",
            "ci needs the role reserve in the namespace team-a",
        ),
        ("GET", "/v1/unlisted", "nobody may GET /v1/unlisted"),
    ] {
        let response = call(Some(&team), method, path).await;
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
    let call = async |issued: Option<&Issued>, method: &str, path: &str| {
        json(
            setup
                .router()
                .oneshot(request(method, path, issued))
                .await
                .unwrap(),
        )
        .await
    };
    let path = "/api/v1/namespaces/other/resourcequotas";
    let status = call(None, "GET", path).await;
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
            "GET",
            "/api/v1/resourcequotas",
            format!("resourcequotas is forbidden: {cannot} list {resource} at the cluster scope"),
        ),
        (
            "POST",
            "/version",
            format!("forbidden: {cannot} post path \"/version\""),
        ),
    ] {
        let status = call(Some(&team), method, path).await;
        assert_eq!(status["message"], message);
        assert_eq!(status["reason"], "Forbidden");
        assert_eq!(status["code"], 403);
    }
    let status = call(
        Some(&team),
        "DELETE",
        "/api/v1/namespaces/other/resourcequotas/q",
    )
    .await;
    assert_eq!(
        status["details"],
        serde_json::json!({"name": "q", "kind": "resourcequotas"})
    );
}
