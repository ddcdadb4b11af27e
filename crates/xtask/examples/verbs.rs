use anyhow::Result;
use croft_api::namespaces::NamespaceClassBinding;
use croft_testbed::Testbed;
use http::{Method, Request, header::CONTENT_TYPE};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, CustomResourceExt,
    api::{ObjectMeta, PostParams},
    client::ClientBuilder,
};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};
use tokio::task::JoinSet;

type Make = Arc<dyn Fn(usize) -> (Method, String, &'static str, String) + Send + Sync>;

async fn run(client: &Client, n: usize, flight: usize, make: Make) -> Result<f64> {
    let next = Arc::new(AtomicUsize::new(0));
    let before = ours();
    let _clock = Instant::now();
    let mut set = JoinSet::new();
    for _ in 0..flight {
        let (client, next, make) = (client.clone(), next.clone(), make.clone());
        set.spawn(async move {
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                if i >= n {
                    return anyhow::Ok(());
                }
                let (method, path, content, body) = make(i);
                let r = Request::builder()
                    .method(method)
                    .uri(&path)
                    .header(CONTENT_TYPE, content)
                    .body(body.into_bytes())?;
                let _: Value = client.request(r).await?;
            }
        });
    }
    while let Some(r) = set.join_next().await {
        r??;
    }
    Ok((ours() - before) as f64 * 1e4 / n as f64)
}
fn ours() -> u64 {
    let me = std::process::id();
    let pids =
        std::fs::read_dir("/proc").unwrap().flatten().filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let f: Vec<_> = stat.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect();
        let n = |i: usize| f.get(i)?.parse::<u64>().ok();
        (pid == me || n(1)? == u64::from(me)).then(|| n(11).unwrap() + n(12).unwrap())
    })
    .sum()
}
const J: &str = "application/json";
const JP: &str = "application/json-patch+json";
const MP: &str = "application/merge-patch+json";
const AP: &str = "application/apply-patch+yaml";
const SP: &str = "application/strategic-merge-patch+json";
fn cm(i: usize, value: &str) -> Value {
    json!({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":format!("item-{}", i%10),"namespace":format!("ns-{}",i/10),"labels":{"app.kubernetes.io/part-of":"bench","stamp":"bench"},
      "ownerReferences":[{"apiVersion":"akuity.io/v1alpha1","kind":"NamespaceClassBinding","name":format!("ns-{}",i/10),"uid":"00000000-0000-0000-0000-000000000000","controller":true,"blockOwnerDeletion":false}]},
      "data":{"value":value,"namespace":format!("ns-{}",i/10),"filling":"x".repeat(250)}})
}
fn cmpath(i: usize, q: &str) -> String {
    format!("/api/v1/namespaces/ns-{}/configmaps/item-{}?{q}", i / 10, i % 10)
}
fn status(g: i64) -> Value {
    let applied: Vec<_> = (0..10).map(|i| json!({"apiVersion":"v1","kind":"ConfigMap","name":format!("item-{i}"),"uid":"00000000-0000-0000-0000-000000000000","state":"Applied","digest":"0123456789abcdef.0123456789abcdef.0123456789abcdef"})).collect();
    let c = |k: &str, s: &str| json!({"type":k,"status":s,"observedGeneration":1,"lastTransitionTime":"2026-01-01T00:00:00Z","reason":"ReconcileSuccess","message":"Successfully applied 10 resources from class bench"});
    json!({"observedGeneration":1,"observedClassName":"bench","observedClassUID":"00000000-0000-0000-0000-000000000000","observedClassGeneration":g,"appliedResources":applied,"conditions":[c("Ready","True"),c("Reconciling","False"),c("Stalled","False")]})
}
fn binding(i: usize) -> Value {
    json!({"apiVersion":"akuity.io/v1alpha1","kind":"NamespaceClassBinding","metadata":{"name":format!("b-{i}"),"namespace":format!("ns-{}",i%100)},"spec":{"className":"bench"}})
}
fn bpath(i: usize, q: &str) -> String {
    format!("/apis/akuity.io/v1alpha1/namespaces/ns-{}/namespaceclassbindings/b-{i}{q}", i % 100)
}

fn main() -> Result<()> {
    tokio::runtime::Runtime::new()?.block_on(real())
}
async fn real() -> Result<()> {
    let bed = Testbed::kubernetes().start().await?;
    bed.stop_controllers();
    let id = bed.cluster_admin("default", "gen").await?;
    let mut config = id.config();
    config.default_retry = false;
    let client = ClientBuilder::try_from(config)?.build();
    let crd = NamespaceClassBinding::crd();
    Api::all(bed.admin().client.clone()).create(&PostParams::default(), &crd).await?;
    let api: Api<Namespace> = Api::all(client.clone());
    for i in 0..100 {
        api.create(
            &PostParams::default(),
            &Namespace {
                metadata: ObjectMeta { name: Some(format!("ns-{i}")), ..Default::default() },
                ..Default::default()
            },
        )
        .await?;
    }
    let n = 1000;
    let c = &client;
    let g = |f: Box<dyn Fn(usize) -> (Method, String, &'static str, String) + Send + Sync>| -> Make { Arc::from(f) };
    let del = || g(Box::new(|i| (Method::DELETE, cmpath(i, ""), J, String::new())));
    for round in 0..5 {
        println!("round {round}");
        for flight in [8usize, 32, 64] {
            let t = run(
                c,
                n,
                flight,
                g(Box::new(|i| {
                    (
                        Method::POST,
                        format!("/api/v1/namespaces/ns-{}/configmaps?fieldManager=croft", i / 10),
                        J,
                        cm(i, "a").to_string(),
                    )
                })),
            )
            .await?;
            let d = run(c, n, flight, del()).await?;
            println!("flight {flight}: post {t:.0} us, delete {d:.0} us");
        }
        let post = |q: &'static str| {
            g(Box::new(move |i| {
                (
                    Method::POST,
                    format!("/api/v1/namespaces/ns-{}/configmaps?fieldManager=croft{q}", i / 10),
                    J,
                    cm(i, "a").to_string(),
                )
            }))
        };
        println!("post            {:.0}", run(c, n, 32, post("")).await?);
        run(c, n, 32, del()).await?;
        println!("post novalidate {:.0}", run(c, n, 32, post("&fieldValidation=Ignore")).await?);
        run(c, n, 32, del()).await?;
        println!(
            "ssa create      {:.0}",
            run(
                c,
                n,
                32,
                g(Box::new(|i| (
                    Method::PATCH,
                    cmpath(i, "fieldManager=croft&force=true"),
                    AP,
                    cm(i, "a").to_string()
                )))
            )
            .await?
        );
        println!(
            "delete uidless body {:.0}",
            run(
                c,
                n,
                32,
                g(Box::new(|i| (
                    Method::DELETE,
                    cmpath(i, ""),
                    J,
                    json!({"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"Background"}).to_string()
                )))
            )
            .await?
        );
        run(c, n, 32, post("")).await?;
        println!(
            "deletecollection per object {:.0}",
            run(
                c,
                n / 10,
                32,
                g(Box::new(|i| (
                    Method::DELETE,
                    format!("/api/v1/namespaces/ns-{i}/configmaps?labelSelector=app.kubernetes.io/part-of=bench"),
                    J,
                    String::new()
                )))
            )
            .await?
                / 10.0
        );
        run(c, n, 32, post("")).await?;
        println!(
            "merge           {:.0}",
            run(
                c,
                n,
                32,
                g(Box::new(|i| (
                    Method::PATCH,
                    cmpath(i, "fieldManager=croft"),
                    MP,
                    json!({"data":{"value":"m"}}).to_string()
                )))
            )
            .await?
        );
        println!(
            "merge novalid   {:.0}",
            run(
                c,
                n,
                32,
                g(Box::new(|i| (
                    Method::PATCH,
                    cmpath(i, "fieldManager=croft&fieldValidation=Ignore"),
                    MP,
                    json!({"data":{"value":"m2"}}).to_string()
                )))
            )
            .await?
        );
        println!(
            "strategic       {:.0}",
            run(
                c,
                n,
                32,
                g(Box::new(|i| (
                    Method::PATCH,
                    cmpath(i, "fieldManager=croft"),
                    SP,
                    json!({"data":{"value":"s"}}).to_string()
                )))
            )
            .await?
        );
        println!(
            "jsonpatch       {:.0}",
            run(
                c,
                n,
                32,
                g(Box::new(|i| (
                    Method::PATCH,
                    cmpath(i, "fieldManager=croft"),
                    JP,
                    json!([{"op":"replace","path":"/data/value","value":"j"}]).to_string()
                )))
            )
            .await?
        );
        println!(
            "put             {:.0}",
            run(c, n, 32, g(Box::new(|i| (Method::PUT, cmpath(i, "fieldManager=croft"), J, cm(i, "p").to_string()))))
                .await?
        );
        println!(
            "ssa change      {:.0}",
            run(
                c,
                n,
                32,
                g(Box::new(|i| (
                    Method::PATCH,
                    cmpath(i, "fieldManager=croft&force=true"),
                    AP,
                    cm(i, "z").to_string()
                )))
            )
            .await?
        );
        println!(
            "ssa change 2    {:.0}",
            run(
                c,
                n,
                32,
                g(Box::new(|i| (
                    Method::PATCH,
                    cmpath(i, "fieldManager=croft&force=true"),
                    AP,
                    cm(i, "y").to_string()
                )))
            )
            .await?
        );
        run(c, n, 32, del()).await?;
        println!(
            "binding post    {:.0}",
            run(
                c,
                n,
                32,
                g(Box::new(|i| (
                    Method::POST,
                    format!(
                        "/apis/akuity.io/v1alpha1/namespaces/ns-{}/namespaceclassbindings?fieldManager=croft-operator",
                        i % 100
                    ),
                    J,
                    binding(i).to_string()
                )))
            )
            .await?
        );
        let st = |v: Value, ct: &'static str| {
            g(Box::new(move |i| (Method::PATCH, bpath(i, "/status?fieldManager=croft-operator"), ct, v.to_string())))
        };
        println!(
            "status jsonpatch add whole (first) {:.0}",
            run(c, n, 32, st(json!([{"op":"add","path":"/status","value":status(1)}]), JP)).await?
        );
        println!("status jsonpatch add whole +test   {:.0}", run(c,n,32,g(Box::new(|i| (Method::PATCH, bpath(i,"/status?fieldManager=croft-operator"), JP, json!([{"op":"test","path":"/metadata/name","value":format!("b-{i}")},{"op":"add","path":"/status","value":status(2)}]).to_string())))).await?);
        println!(
            "status jsonpatch add whole         {:.0}",
            run(c, n, 32, st(json!([{"op":"add","path":"/status","value":status(3)}]), JP)).await?
        );
        println!("status jsonpatch small             {:.0}", run(c,n,32,st(json!([{"op":"replace","path":"/status/observedClassGeneration","value":4},{"op":"replace","path":"/status/appliedResources/0/digest","value":"0123456789abcdef.0123456789abcdef.0123456789abcd33"}]),JP)).await?);
        println!("status merge whole                 {:.0}", run(c, n, 32, st(json!({"status":status(5)}), MP)).await?);
        println!(
            "status merge small                 {:.0}",
            run(c, n, 32, st(json!({"status":{"observedClassGeneration":6}}), MP)).await?
        );
        println!(
            "binding delete  {:.0}",
            run(c, n, 32, g(Box::new(|i| (Method::DELETE, bpath(i, ""), J, String::new())))).await?
        );
    }
    Ok(())
}
