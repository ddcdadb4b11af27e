//! A gateway that goes away and comes back.

use croft_rgw::ErrorClass;
use croft_testbed::Ceph;

use crate::support::{gateway_of, user_in};

#[tokio::test]
async fn an_outage_is_transient_and_the_same_client_works_after_it() {
    let ceph = Ceph::start().await.unwrap();
    let gateway = gateway_of(&ceph);
    let (bob, s3) = user_in(&gateway, "outage").await;
    let before = gateway.user(&bob).await.unwrap();

    ceph.stop_gateway();
    for error in [gateway.user(&bob).await.unwrap_err(), s3.head_bucket("data").await.unwrap_err()] {
        assert_eq!((error.class(), error.reason()), (ErrorClass::Transient, "GatewayUnreachable"));
    }

    ceph.start_gateway().await.unwrap();
    assert_eq!(gateway.user(&bob).await, Ok(before));
}
