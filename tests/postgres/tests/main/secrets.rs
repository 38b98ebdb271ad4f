//! Secrets that somebody deletes.

use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{DeleteParams, ListParams};
use postgres_processes::{Database, Member};

use crate::{
    application::{connect, secret},
    ledger::Ledger,
};

#[tokio::test]
async fn deleted_secrets_are_created_again_and_the_database_goes_on() {
    let mut database = Database::new(2).await.unwrap();
    database.until_complete().await.unwrap();
    let primary = database.primary().unwrap().name.clone();
    let mut ledger = Ledger::create(database.primary().unwrap()).unwrap();
    let client = crate::ledger::connect(database.primary().unwrap()).await.unwrap();
    assert!(ledger.write(&client).await);

    // The primary still has the former certificates, until the kubelet mounts the new ones.
    let secrets = database.kubelet.api::<Secret>();
    secrets.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    let standby = database.kubelet.members.iter().find(|member| member.name != primary).unwrap().name.clone();
    database.kubelet.api::<Pod>().delete(&standby, &DeleteParams::default()).await.unwrap();
    let new = async |_: &[Member]| {
        let names = secrets.list(&ListParams::default()).await?.items.len();
        Ok(if names == 4 { Ok(()) } else { Err(names) })
    };
    database.kubelet.until("four Secrets", new).await.unwrap();
    assert!(ledger.write(&client).await, "the primary goes on");
    let pod = database.kubelet.api::<Pod>().get(&primary).await.unwrap();
    assert!(database.kubelet.mount(&primary, &pod).await.unwrap());
    database.until_complete().await.unwrap();

    assert_eq!(
        (database.status.primary.epoch, database.status.primary.current.as_str()),
        (1, primary.as_str())
    );
    assert!(ledger.write(&client).await);
    assert_eq!(ledger.check(database.primary().unwrap()).await.unwrap(), (3, vec![]));
    let uri = secret(&database.kubelet).await.unwrap().remove("uri").unwrap();
    let check = async |members: &[Member]| {
        let primary = members.iter().find(|member| member.name == primary);
        Ok(connect(primary.unwrap(), &uri).await.map(drop))
    };
    database.kubelet.until("the new password", check).await.unwrap();
}
