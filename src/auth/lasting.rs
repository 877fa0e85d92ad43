//! Long-lived responses: a watch ends when its caller loses the right to watch.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

use super::{
    Principal,
    register::{Credential, Register},
};
use crate::clock::now;

/// The clock may be set forward while a timer runs, so the time that is left is computed again at least this often.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// Waits until a credential has expired, was removed, or stands for other rights than at the start of the request.
pub(super) async fn until_revoked(
    mut registers: watch::Receiver<Arc<Register>>,
    credential: Credential,
    principal: Principal,
) {
    loop {
        let register = registers.borrow_and_update().clone();
        match register.holder(&credential, now()) {
            Ok(holder) if *holder == principal => {}
            _ => return,
        }
        let expires = register.expires(&credential);
        let expired = async {
            match expires {
                Some(time) => {
                    let left = time.since(now()).nanoseconds();
                    let left = Duration::from_nanos(u64::try_from(left).unwrap_or(0));
                    tokio::time::sleep(left.min(LONGEST_SLEEP)).await;
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = expired => {}
            changed = registers.changed() => if changed.is_err() {
                return;
            }
        }
    }
}
