//! How Croft gets into the cluster.

use anyhow::Result;
use croft_testbed::product;

use super::cluster::{Cluster, OPERATOR};
use crate::{
    story::{Story, show_command},
    tools::{root, target},
};

const IMAGE: &str = concat!("localhost/croft:", env!("CARGO_PKG_VERSION"));

impl Cluster {
    pub(super) async fn install_croft(&self, story: &mut Story) -> Result<()> {
        story.begin("Croft is installed with two replicas, and told of the Ceph.");
        let target = root().join(target()?);
        self.node.import(&target.join("image/croft.tar")).await?;
        let croft = target.join("debug/croft");
        show_command("admin", &format!("croft manifests --image {IMAGE} | kubectl apply --server-side -f -"));
        let manifests = product::printed(&croft, &["manifests", "--namespace", OPERATOR, "--image", IMAGE]).await?;
        product::apply(&self.bed, &manifests).await?;
        product::make_class(&self.bed, self.bed.ceph()).await?;
        self.deployment_is_ready(OPERATOR, "croft").await?;
        self.admin().kubectl(&format!("get pods -n {OPERATOR} -o wide")).await
    }
}
