//! Users, their keys, their subusers and their quota.

use serde::{Deserialize, Deserializer};

use super::Gateway;
use crate::{
    Access, NewUser, Page, Quota, RgwError, Usage, User, UserChange, UserId,
    admin::users,
    answer::Answer,
    error::{USER_HAS_BUCKETS, absent_is_done, absent_is_none},
    quota::Flag,
    request::Request,
};

impl Gateway {
    /// The user with all its keys; `None` if there is none.
    pub async fn user(&self, id: &UserId) -> Result<Option<User>, RgwError> {
        absent_is_none(self.session.send(users::get_user(id)).await)?.map(Answer::json).transpose()
    }

    /// What the user's buckets hold now, all together; `None` if there is no such user.
    pub async fn usage_of(&self, id: &UserId) -> Result<Option<Usage>, RgwError> {
        #[derive(Deserialize)]
        struct WithStats {
            stats: Usage,
        }
        let user = absent_is_none(self.session.send(users::get_usage(id)).await)?;
        user.map(|answer| answer.json().map(|WithStats { stats }| stats)).transpose()
    }

    /// A thousand users at a time, in no particular order, from the beginning or `after` what the page before said.
    pub async fn users(&self, after: Option<&str>) -> Result<Page<UserId>, RgwError> {
        self.session.send(users::list_users(after)).await?.json().map(|UserList(page)| page)
    }

    /// Fails with `UserAlreadyExists` if there is one, whatever it looks like. Two calls at the same time may both
    /// succeed, and then one display name, limit and secret wins: what [`user`](Self::user) says afterwards counts.
    pub async fn create_user(&self, new: &NewUser) -> Result<User, RgwError> {
        self.write_user(&new.id, users::create_user(new)).await?.json()
    }

    /// Changes some of what a user is. One that does not exist is an error: `NoSuchUser`.
    pub async fn modify_user(&self, id: &UserId, change: &UserChange) -> Result<User, RgwError> {
        self.write_user(id, users::modify_user(id, change)).await?.json()
    }

    /// Without `purge` a user with buckets is not removed: `UserHasBuckets`. With it, all buckets and objects go too.
    pub async fn remove_user(&self, id: &UserId, purge: bool) -> Result<(), RgwError> {
        let removed = self.write_user(id, users::remove_user(id, purge)).await;
        absent_is_done(removed.map_err(|error| error.renaming("BucketAlreadyExists", USER_HAS_BUCKETS)))
    }

    /// Sets the quota on all of the user's buckets together.
    pub async fn set_user_quota(&self, id: &UserId, quota: Quota) -> Result<(), RgwError> {
        self.write_user(id, users::set_user_quota(id, quota)).await.map(drop)
    }

    /// Makes the subuser with its key, whose secret [`user`](Self::user) tells. If the subuser exists its access stays
    /// as it was (see [`set_subuser_access`](Self::set_subuser_access)); if the key exists it gets a new secret.
    pub async fn create_subuser(
        &self,
        id: &UserId,
        name: &str,
        access: Access,
        access_key: &str,
    ) -> Result<(), RgwError> {
        self.write_user(id, users::create_subuser(id, name, access, access_key)).await.map(drop)
    }

    /// Sets what the subuser may do; its keys stay. One that does not exist is an error: `NoSuchSubUser`.
    pub async fn set_subuser_access(&self, id: &UserId, name: &str, access: Access) -> Result<(), RgwError> {
        self.write_user(id, users::set_subuser_access(id, name, access)).await.map(drop)
    }

    /// Removes the subuser and all of its keys.
    pub async fn remove_subuser(&self, id: &UserId, name: &str) -> Result<(), RgwError> {
        absent_is_done(self.write_user(id, users::remove_subuser(id, name)).await)
    }

    /// Adds a key to the user or to one of its subusers, or gives an existing one a new secret at once;
    /// [`user`](Self::user) tells which. The gateway does not check that the subuser exists.
    pub async fn put_key(&self, id: &UserId, subuser: Option<&str>, access_key: &str) -> Result<(), RgwError> {
        self.write_user(id, users::put_key(id, subuser, access_key)).await.map(drop)
    }

    /// Removes a key of the user or of one of its subusers.
    pub async fn remove_key(&self, id: &UserId, access_key: &str) -> Result<(), RgwError> {
        match absent_is_done(self.write_user(id, users::remove_key(id, access_key)).await) {
            // Either the key is gone already or our own is not known: looking tells which.
            Err(refused) if refused.reason() == "InvalidAccessKeyId" => match self.user(id).await? {
                Some(user) if user.key(access_key).is_some() => Err(refused),
                _ => Ok(()),
            },
            result => result,
        }
    }

    async fn write_user(&self, id: &UserId, request: Request) -> Result<Answer, RgwError> {
        self.write(format!("user {id}"), request).await
    }
}

struct UserList(Page<UserId>);

impl<'de> Deserialize<'de> for UserList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Answer {
            keys: Vec<String>,
            truncated: Flag,
            marker: Option<String>,
        }
        let answer = Answer::deserialize(deserializer)?;
        let items = answer.keys.iter().map(|name| UserId::from_answer(name)).collect();
        Ok(Self(Page { items, next: answer.marker.filter(|_| answer.truncated.0) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(body: &'static str) -> Result<Page<UserId>, RgwError> {
        Answer::of(body).json().map(|UserList(page)| page)
    }

    #[test]
    fn a_page_of_users_tells_where_to_go_on() {
        let page = page(r#"{"keys":["acme$bob","admin"],"truncated":true,"count":2,"marker":"4:5f:admin:head"}"#);
        let items = vec![UserId::new("acme", "bob").unwrap(), UserId::new("", "admin").unwrap()];
        assert_eq!(page, Ok(Page { items, next: Some("4:5f:admin:head".into()) }));
    }

    #[test]
    fn the_last_page_ends_the_listing() {
        for body in
            [r#"{"keys":[],"truncated":false,"count":0}"#, r#"{"keys":[],"truncated":"false","count":0,"marker":"x"}"#]
        {
            assert_eq!(page(body), Ok(Page { items: vec![], next: None }), "{body}");
        }
    }

    #[test]
    fn a_listing_cut_short_is_not_taken_for_the_last_page() {
        assert_eq!(page(r#"{"keys":["#).unwrap_err().reason(), "UnreadableAnswer");
    }
}
