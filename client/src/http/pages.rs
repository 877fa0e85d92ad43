//! Lists that are requested page by page.

use std::{collections::VecDeque, marker::PhantomData};

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Address, Call, Client, Error, Method, StatusCode};

/// The maximum number of items that one request asks for.
const PAGE_ITEMS: usize = 500;

/// The pages of a list, as received. Each page is requested when it is needed. Ends after the first error.
#[derive(Clone, Debug)]
pub struct Pages<'a> {
    client: &'a Client,
    address: Address,
    left: usize,
    next: Next,
}

#[derive(Clone, Debug)]
enum Next {
    First,
    Behind(String),
    None,
}

impl Pages<'_> {
    fn ask(&mut self) -> Result<Value, Error> {
        let token = match std::mem::replace(&mut self.next, Next::None) {
            Next::Behind(token) => Some(token),
            Next::First | Next::None => None,
        };
        let address = self
            .address
            .clone()
            .with("limit", self.left.min(PAGE_ITEMS))
            .with_some("continue", token.as_ref());
        let reply = self.client.send(&Call::new(Method::GET, &address))?;
        let page: Value = reply.json()?;
        let Some(items) = page.get("items").and_then(Value::as_array) else {
            let what = "gives an answer that is no list";
            return Err(self.client.unexpected(reply.status, what));
        };
        self.left = self.left.saturating_sub(items.len());
        let behind = page.get("continue").and_then(Value::as_str);
        let behind = behind.filter(|behind| !behind.is_empty());
        // A page may be empty and yet not be the last; but it cannot be the next one of itself.
        if behind.is_some() && behind == token.as_deref() {
            let what = "lists the same page again";
            return Err(self.client.unexpected(reply.status, what));
        }
        if let Some(behind) = behind
            && self.left > 0
        {
            self.next = Next::Behind(behind.to_owned());
        }
        Ok(page)
    }
}

impl Iterator for Pages<'_> {
    type Item = Result<Value, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.next {
            Next::None => None,
            _ => Some(self.ask()),
        }
    }
}

/// The items of a list; pages are requested when they are needed. Ends after the first error.
#[derive(Debug)]
pub struct Items<'a, T> {
    pages: Pages<'a>,
    page: VecDeque<Value>,
    read: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Iterator for Items<'_, T> {
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.page.pop_front() {
                let item = serde_json::from_value(item);
                if item.is_err() {
                    self.page.clear();
                    self.pages.next = Next::None;
                }
                return Some(item.map_err(|error| {
                    let what = format!("lists an item of another form: {error}");
                    self.pages.client.unexpected(StatusCode::OK, what)
                }));
            }
            match self.pages.next()? {
                Err(error) => return Some(Err(error)),
                Ok(mut page) => {
                    if let Some(Value::Array(items)) = page.get_mut("items").map(Value::take) {
                        self.page = items.into();
                    }
                }
            }
        }
    }
}

impl Client {
    /// The pages of a list of at most `most` items, as received.
    pub const fn pages(&self, address: Address, most: usize) -> Pages<'_> {
        Pages { client: self, address, left: most, next: Next::First }
    }

    /// The items of a list.
    pub const fn items<T: DeserializeOwned>(&self, address: Address) -> Items<'_, T> {
        Items { pages: self.pages(address, usize::MAX), page: VecDeque::new(), read: PhantomData }
    }
}
