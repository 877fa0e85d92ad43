//! An AdmissionReview, as received from an API server.

use serde_json::Value;

use super::world;

/// Posts the input as a review, twice. Valid reviews get the same AdmissionReview answer both times; a dry run writes
/// nothing.
pub fn run(data: &[u8]) {
    world::with(|world| {
        let review: Value = serde_json::from_slice(data).unwrap_or_default();
        let before = world.head();
        let (status, answer) = world.call("POST", "/admit", "application/json", data.to_vec());
        assert!(matches!(status, 200 | 400 | 413 | 415), "{status}");
        if status != 200 {
            assert_eq!(world.head(), before, "a refusal wrote something");
            return;
        }
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        if review.is_null() {
            // The answer is cut off behind the uid.
            assert_eq!(world.head(), before, "what is no review wrote something");
            return;
        }
        for field in ["apiVersion", "kind"] {
            assert_eq!(answer[field], review[field]);
        }
        let response = &answer["response"];
        assert_eq!(response["uid"], review["request"]["uid"]);
        let allowed = response["allowed"].as_bool().unwrap();
        if review["request"]["dryRun"] == true {
            assert_eq!(world.head(), before, "a dry run wrote something");
        }
        if !allowed {
            assert_eq!(world.head(), before, "a denial wrote something");
            assert!(response["status"]["code"].as_u64().unwrap() >= 400);
            assert!(!response["status"]["message"].as_str().unwrap().is_empty());
        }
        let (again, second) = world.call("POST", "/admit", "application/json", data.to_vec());
        let second: Value = serde_json::from_slice(&second).unwrap();
        assert_eq!((again, &second["response"]["allowed"]), (200, &allowed.into()));
    });
}
