use super::*;

#[test]
fn a_file_reads_what_it_prints() {
    let mut file = file(&[&token("ci", &[Role::Reserve, Role::Read], &["team-*", "ci"])]);
    file.tokens[0].expires = Some("2027-01-01T00:00:00Z".parse().unwrap());
    file.certificates.push(certificate("b.svc", "bridge"));
    let text = file.to_toml().unwrap();
    assert_eq!(File::parse(&text).unwrap().to_toml().unwrap(), text);
    assert!(text.contains("roles = [\"reserve\", \"read\"]\n"), "{text}");
    assert!(File::parse("").unwrap().tokens.is_empty());
    let most = text.replace("\"team-*\", \"ci\"", &vec!["\"a\""; 2048].join(","));
    assert!(most.len() > text.len() && File::parse(&most).is_ok());
}

#[test]
fn what_is_wrong_with_a_file_is_said_without_secrets() {
    let issued = token("ci", &[Role::Read], &["*"]);
    let good = file(&[&issued]).to_toml().unwrap();
    let hash = issued.record.hash.to_hex();
    let secret = issued.token.reveal();
    let id = &issued.record.id;
    let cases = [
        (format!("{good}{good}"), format!("token {id}: is there twice")),
        (good.replace("\"read\"", ""), format!("token {id}: has no roles")),
        (good.replace("\"*\"", ""), "has no namespaces; all of them are [\"*\"]".to_owned()),
        (
            good.replace("\"*\"", &vec!["\"a\""; 2049].join(",")),
            format!("token {id}: has namespaces of more than 8192 bytes in all"),
        ),
        (good.replace("\"read\"", "\"root\""), "line 5: unknown variant `root`".to_owned()),
        (good.replace("\"*\"", "\"Team\""), "line 6: not a pattern of namespaces".to_owned()),
        (good.replace("\"ci\"", "\"anonymous\""), "is a name of the daemon's own".to_owned()),
        (good.replace("\"ci\"", "\"clock\""), "is a name of the daemon's own".to_owned()),
        (good.replace("\"ci\"", "\"a b\""), "principal: names must be".to_owned()),
        (good.replace(id, "A"), "a token: id must be".to_owned()),
        (good.replace("principal", "user"), "unknown field `user`".to_owned()),
        // Tokens in the wrong places.
        (good.replace(hash.as_str(), secret), "line 3: hash must be 64 hexadecimal".to_owned()),
        (good.replace(id, secret), "a token: id must be".to_owned()),
        (good.replace("\"ci\"", &format!("{secret:?}")), "principal: names must be".to_owned()),
        (good.replace("\"read\"", &format!("{secret:?}")), "unknown variant".to_owned()),
        (good.replace("\"*\"", &format!("{secret:?}")), "[redacted]".to_owned()),
        (format!("{good}expires = {secret:?}"), "[redacted]".to_owned()),
        (format!("{good}{secret} = 1"), "unknown field".to_owned()),
        (format!("{good}\n{secret}"), "line".to_owned()),
    ];
    for (text, expected) in cases {
        let error = File::parse(&text).unwrap_err().to_string();
        assert!(error.contains(&expected), "{error:?} does not say {expected:?}");
        assert!(!error.contains(&secret[20..40]), "{error}");
    }
}

#[tokio::test]
async fn a_changed_file_is_taken_into_force_and_a_bad_one_is_not() {
    let (old, new) = (token("old", &[Role::Read], &["*"]), token("new", &[Role::Read], &["*"]));
    let mut setup = Setup::new(&file(&[&old]));
    let router = setup.router();
    let status = async |issued| {
        let response = call(&router, request("GET", "/v1/quotas", Some(issued)));
        response.await.status().as_u16()
    };
    assert_eq!((status(&old).await, status(&new).await), (200, 401));
    setup.change(&file(&[&old, &new]).to_toml().unwrap());
    assert_eq!((status(&old).await, status(&new).await), (200, 200));
    setup.change("[[tokens]]\nid = ");
    assert_eq!((status(&old).await, status(&new).await), (200, 200));
    fs::remove_file(setup.directory.path().join("tokens.toml")).unwrap();
    setup.follower.look();
    assert_eq!((status(&old).await, status(&new).await), (200, 200));
    setup.change(&file(&[&new]).to_toml().unwrap());
    assert_eq!((status(&old).await, status(&new).await), (401, 200));
}

#[test]
fn a_bad_file_is_an_error_at_the_start() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("tokens.toml");
    let config = schema::Auth { tokens_file: Some(path.clone()), ..schema::Auth::default() };
    let error = || Authenticator::load(&config).err().unwrap().to_string();
    assert!(error().contains("cannot be read"), "{}", error());
    fs::write(&path, "tokens = 1").unwrap();
    assert!(error().contains("line 1"), "{}", error());
}
