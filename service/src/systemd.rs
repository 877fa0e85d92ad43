//! Notifications to systemd (`Type=notify`), if it started the program. Otherwise nothing happens.

use std::{
    ffi::OsStr,
    io,
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            ffi::OsStrExt as _,
            net::{SocketAddr, UnixDatagram},
        },
    },
};

/// Notifies that the program is ready.
pub fn ready() {
    notify("READY=1\nSTATUS=ready");
}

/// Sets the status for `systemctl status`: one line.
pub fn status(text: &str) {
    notify(&format!("STATUS={text}"));
}

/// Notifies that the program is about to stop.
pub fn stopping() {
    notify("STOPPING=1\nSTATUS=stopping");
}

fn notify(message: &str) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    if let Err(error) = send(&socket, message) {
        tracing::warn!(%error, message, "cannot notify systemd");
    }
}

/// Sends a notification. A name that begins with `@` is in the abstract namespace, any other is a path.
fn send(socket: &OsStr, message: &str) -> io::Result<()> {
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(message.as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_abstract_socket_is_written_to() {
        let name = format!("quota-ledger-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let systemd = UnixDatagram::bind_addr(&address).unwrap();
        send(OsStr::new(&format!("@{name}")), "READY=1").unwrap();
        let mut message = [0; 64];
        let length = systemd.recv(&mut message).unwrap();
        assert_eq!(&message[..length], b"READY=1");
        assert!(send(OsStr::new("/nonexistent/socket"), "READY=1").is_err());
    }
}
