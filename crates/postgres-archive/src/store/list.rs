//! Lists objects in pages.

use futures::{Stream, StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use object_store::{
    ObjectMeta,
    list::{PaginatedListOptions, PaginatedListStore},
};

use super::{
    ObjectStore,
    error::{Failure, Operation, StoreError},
    retry::AttemptError,
};

/// Most pages of a listing: 20 million objects in pages of 1000.
const MAX_PAGES: u32 = 20_000;

/// Object in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Key below the URL of the settings.
    pub(crate) key: String,
    /// Bytes in the store.
    pub(crate) size: u64,
    /// When it was written, by the clock of the store.
    pub(crate) written_at: Timestamp,
}

/// Where the next page begins.
enum Page {
    First,
    Next { token: String, number: u32 },
}

impl ObjectStore {
    /// Lists the objects in a folder, which ends with a slash, in the order of their keys. With
    /// `after`, only those with higher keys.
    ///
    /// A page is requested when the objects before it have been taken.
    pub(crate) fn list(
        &self,
        folder: &str,
        after: Option<&str>,
    ) -> impl Stream<Item = Result<Entry, StoreError>> + Send + use<> {
        let (store, folder, after) = (self.clone(), folder.to_owned(), after.map(|key| self.full_key(key)));
        let pages = stream::try_unfold(Some(Page::First), move |page| {
            let (store, folder, after) = (store.clone(), folder.clone(), after.clone());
            async move {
                let Some(page) = page else { return Ok::<_, StoreError>(None) };
                let (entries, next) = store.page(&folder, after, page).await?;
                Ok(Some((stream::iter(entries).map(Ok), next)))
            }
        });
        pages.try_flatten()
    }

    async fn page(
        &self,
        folder: &str,
        after: Option<String>,
        page: Page,
    ) -> Result<(Vec<Entry>, Option<Page>), StoreError> {
        let (token, number) = match page {
            Page::First => (None, 0),
            Page::Next { token, number } => (Some(token), number),
        };
        if number == MAX_PAGES {
            let (key, limit) = (folder.to_owned(), u64::from(MAX_PAGES) * 1000);
            return Err(StoreError::TooLarge { operation: Operation::List, key, limit, unit: "objects" });
        }
        let options = PaginatedListOptions { offset: after, page_token: token, ..Default::default() };
        let prefix = self.full_key(folder);
        let answer = self.retry(Operation::List, folder, || async {
            let answer = self.s3.list_paginated(Some(&prefix), options.clone()).await;
            answer.map_err(|error| AttemptError::from(Failure::of(&error)))
        });
        let answer = answer.await?;
        let entries = answer.result.objects.into_iter().filter_map(|object| self.entry(object)).collect();
        let next = answer.page_token.map(|token| Page::Next { token, number: number + 1 });
        Ok((entries, next))
    }

    /// Returns an entry with the key below the URL. Returns `None` for an object outside.
    fn entry(&self, object: ObjectMeta) -> Option<Entry> {
        let key = object.location.as_ref();
        let key = match &*self.prefix {
            "" => key,
            prefix => key.strip_prefix(prefix)?.strip_prefix('/')?,
        };
        let written_at = Timestamp::from_second(object.last_modified.timestamp()).unwrap_or_default();
        Some(Entry { key: key.to_owned(), size: object.size, written_at })
    }
}
