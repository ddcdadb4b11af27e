use crate::{all_config_maps, bed, config_map, create};

#[tokio::test]
async fn a_tenant_is_refused_outside_its_namespace() -> anyhow::Result<()> {
    let bed = bed().await?;
    let (own, other) = (bed.namespace("own").await?, bed.namespace("other").await?);
    let tenant = bed.tenant("alice", &own, all_config_maps()).await?;

    create(&tenant.client, &own, "mine").await?;
    match create(&tenant.client, &other, "theirs").await {
        Err(kube::Error::Api(status)) => {
            assert_eq!(status.code, 403);
            assert!(status.message.contains("User \"alice\""), "{}", status.message);
        }
        other => panic!("a tenant wrote outside its namespace: {other:?}"),
    }
    assert!(tenant.can("delete", "configmaps", Some(&own)).await?);
    assert!(!tenant.can("get", "secrets", Some(&own)).await?);
    Ok(())
}

#[tokio::test]
async fn a_tenant_is_a_user_of_the_group_tenants() -> anyhow::Result<()> {
    let bed = bed().await?;
    let tenant = bed.tenant("bob", &bed.namespace("bob").await?, all_config_maps()).await?;
    let who = tenant.kubectl(&["auth", "whoami", "-o", "json"]).await?;
    assert!(who.contains("\"username\": \"bob\"") && who.contains("\"tenants\""), "{who}");
    Ok(())
}

#[tokio::test]
async fn a_service_account_has_no_rights_it_was_not_given() -> anyhow::Result<()> {
    let bed = bed().await?;
    let namespace = bed.namespace("robots").await?;
    let robot = bed.service_account(&namespace, "robot").await?;
    assert_eq!(robot.name, format!("system:serviceaccount:{namespace}:robot"));
    assert!(!robot.can("list", "configmaps", Some(&namespace)).await?);
    let denied = robot.kubectl(&["get", "configmaps", "-n", &namespace]).await.unwrap_err().to_string();
    assert!(denied.contains(&robot.name), "{denied}");
    Ok(())
}

#[tokio::test]
async fn kubectl_applies_what_it_reads() -> anyhow::Result<()> {
    let bed = bed().await?;
    let namespace = bed.namespace("piped").await?;
    let manifest = serde_json::to_string(&config_map("piped"))?;
    let printed = bed.admin().kubectl_stdin(&["apply", "-n", &namespace, "-f", "-"], &manifest).await?;
    assert_eq!(printed.trim(), "configmap/piped created");
    Ok(())
}

#[tokio::test]
async fn an_identity_does_not_print_its_token() -> anyhow::Result<()> {
    let bed = bed().await?;
    let token = bed.admin().token.clone().unwrap_or_default();
    assert!(!token.is_empty() && !format!("{:?}", bed.admin()).contains(&token));
    Ok(())
}
