//! Schedules: backups by the clock, one at a time, and an end to the old ones.

use anyhow::{Result, ensure};
use croft_api::{
    backup::{BackupSchedule, NonAdminBackup, SCHEDULE_UID_LABEL, SCHEDULED_AT_ANNOTATION},
    velero::Backup,
};
use croft_core::backup::schedule::backup_name;
use croft_testbed::wait;
use kube::{
    ResourceExt,
    api::{ListParams, PostParams},
};
use serde_json::{Value, json};

use crate::plot::{Plot, SETTINGS, VELERO_PATIENCE, message, velero_name};

impl Plot {
    async fn add_schedule(&self, more: Value) -> Result<BackupSchedule> {
        let mut spec =
            json!({ "schedule": "* * * * *", "template": { "backupSpec": { "includedResources": ["configmaps"] } } });
        for (field, value) in more.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        self.create("often", spec).await
    }

    /// Names of the backups a schedule made, in order.
    async fn made_by(&self, schedule: &BackupSchedule) -> Result<Vec<String>> {
        let label = format!("{SCHEDULE_UID_LABEL}={}", schedule.uid().unwrap_or_default());
        let made = self.api::<NonAdminBackup>().list(&ListParams::default().labels(&label)).await?;
        let mut names: Vec<_> = made.items.iter().map(ResourceExt::name_any).collect();
        names.sort();
        Ok(names)
    }

    async fn first_of(&self, schedule: &BackupSchedule, after: Option<&str>) -> Result<String> {
        wait::until("the schedule to make a backup", VELERO_PATIENCE, || async {
            let made = self.made_by(schedule).await?;
            Ok(made.into_iter().find(|name| after.is_none_or(|after| name.as_str() > after)))
        })
        .await
    }
}

#[tokio::test]
async fn a_schedule_makes_backups_by_the_clock_and_keeps_the_last_one() -> Result<()> {
    let plot = Plot::with_vault("clock").await?;
    plot.add_config_map("prices").await?;
    let schedule = plot.add_schedule(json!({ "keep": { "last": 1 } })).await?;
    let first = plot.first_of(&schedule, None).await?;
    let told = |status: &Value| status["lastBackupName"] == first.as_str();
    let status = plot.status::<BackupSchedule>("often", "to tell of it", told).await;
    let time = |field: &str| status[field].as_str().and_then(|text| text.parse::<jiff::Timestamp>().ok());
    assert!(time("nextScheduleTime") > time("lastScheduleTime") && time("lastScheduleTime").is_some(), "{status}");
    let before = velero_name(&plot.backup_completes(&first).await?);

    let second = plot.first_of(&schedule, Some(&first)).await?;
    plot.patch::<BackupSchedule>("often", json!({ "spec": { "suspend": true } })).await?;
    let after = velero_name(&plot.backup_completes(&second).await?);
    plot.vanishes(&plot.api::<NonAdminBackup>(), &first).await?;
    let stored = plot.in_vault().await?;
    assert!(!stored.iter().any(|name| name.contains(&before)) && stored.iter().any(|name| name.contains(&after)));
    let suspended =
        |status: &Value| message(status, "Ready").contains("suspend") && status["nextScheduleTime"].is_null();
    plot.status::<BackupSchedule>("often", "to be suspended", suspended).await;

    plot.delete::<BackupSchedule>("often").await?;
    plot.vanishes(&plot.api::<BackupSchedule>(), "often").await?;
    plot.backup_completes(&second).await?;
    Ok(())
}

#[tokio::test]
async fn what_is_no_schedule_is_refused_at_the_door() -> Result<()> {
    let plot = Plot::empty("unscheduled").await?;
    let wrong = json!({ "schedule": "61 * * * *", "timeZone": "Middle/Earth", "keep": { "for": "soon" },
                        "template": { "backupSpec": { "includedNamespaces": ["kube-system"] } } });
    let told = plot.refusal::<BackupSchedule>("often", wrong).await?;
    assert!(told.contains("61 is no minute"), "{told}");
    for field in ["spec.schedule", "spec.timeZone", "spec.keep.for", "spec.template.backupSpec"] {
        assert!(told.contains(field), "{told}");
    }
    Ok(())
}

#[tokio::test]
async fn a_backup_of_somebody_elses_in_its_way_is_told_and_left_alone() -> Result<()> {
    let plot = Plot::empty("occupied").await?;
    let names: Vec<_> = (0..6)
        .map(|minute| jiff::Timestamp::now() + jiff::SignedDuration::from_mins(minute))
        .map(|due| backup_name("often", due))
        .collect();
    for name in &names {
        plot.back_up_somewhere(name).await?;
    }
    let schedule = plot.add_schedule(json!({})).await?;
    let says = |status: &Value| message(status, "Stalled").contains("was not made by this schedule");
    // Its first time comes with the next full minute.
    plot.status_within::<BackupSchedule>(VELERO_PATIENCE, "often", "to be in trouble", says).await;
    assert_eq!(plot.made_by(&schedule).await?, [""; 0]);
    for name in &names {
        plot.delete::<NonAdminBackup>(name).await?;
    }
    plot.first_of(&schedule, None).await?;
    Ok(())
}

#[tokio::test]
async fn a_backup_that_says_it_was_due_in_another_century_stops_no_schedule() -> Result<()> {
    let plot = Plot::with_vault("future").await?;
    plot.add_config_map("prices").await?;
    let schedule = plot.add_schedule(json!({})).await?;
    let backup = json!({
        "apiVersion": "oadp.openshift.io/v1alpha1", "kind": "NonAdminBackup",
        "metadata": { "name": "zeal", "labels": { SCHEDULE_UID_LABEL: schedule.uid() },
                      "annotations": { SCHEDULED_AT_ANNOTATION: "2190-01-01T03:00:00Z" } },
        "spec": { "backupSpec": { "includedResources": ["configmaps"] } },
    });
    plot.api::<NonAdminBackup>().create(&PostParams::default(), &serde_json::from_value(backup)?).await?;
    let made = wait::until("the schedule to go on", VELERO_PATIENCE, || async {
        Ok(plot.made_by(&schedule).await?.into_iter().find(|name| name != "zeal"))
    });
    made.await?;
    Ok(())
}

#[tokio::test]
async fn what_is_no_time_on_a_backup_does_not_get_to_velero() -> Result<()> {
    let plot = Plot::with_vault("timeless").await?;
    plot.add_config_map("prices").await?;
    for (name, time) in [("true", "2026-01-01T03:00:00Z".to_owned()), ("false", "x".repeat(40_000))] {
        let backup = json!({
            "apiVersion": "oadp.openshift.io/v1alpha1", "kind": "NonAdminBackup",
            "metadata": { "name": name, "labels": { SCHEDULE_UID_LABEL: "x" }, "annotations": { SCHEDULED_AT_ANNOTATION: time } },
            "spec": { "backupSpec": { "includedResources": ["configmaps"] } },
        });
        plot.api::<NonAdminBackup>().create(&PostParams::default(), &serde_json::from_value(backup)?).await?;
        let made = velero_name(&plot.backup_completes(name).await?);
        let made = plot.veleros::<Backup>().get(&made).await?;
        let noted = made.annotations().get(SCHEDULED_AT_ANNOTATION);
        assert_eq!(noted, (name == "true").then_some(&time));
    }
    Ok(())
}

#[tokio::test]
async fn never_are_two_made_at_once_and_of_all_times_missed_while_nobody_looked_one_is_made_up_for() -> Result<()> {
    let plot = Box::pin(Plot::empty_alone("missed", SETTINGS)).await?;
    plot.add_vault(json!({})).await?;
    plot.vault_says("True", "Provisioned").await;
    plot.add_config_map("prices").await?;
    plot.world.bed.velero().process().stop();
    let schedule = plot.add_schedule(json!({})).await?;
    let first = plot.first_of(&schedule, None).await?;
    // Another minute has come, and the first is not finished.
    let waits =
        |status: &Value| message(status, "Ready").contains(&format!("waits for {first}, which is not finished"));
    plot.status_within::<BackupSchedule>(VELERO_PATIENCE, "often", "to wait", waits).await;
    ensure!(plot.made_by(&schedule).await? == [first.as_str()], "two at once");
    let missed = jiff::Timestamp::now().as_second() / 60;
    plot.world.operator.process.stop();
    plot.world.bed.velero().process().cont();
    wait::until("Velero to be done with the first, and another minute to come", VELERO_PATIENCE, || async {
        let velero = plot.veleros::<Backup>().list(&ListParams::default()).await?;
        let is_done = velero.iter().all(|backup| json!(backup)["status"]["phase"] == "Completed");
        Ok((is_done && !velero.items.is_empty() && jiff::Timestamp::now().as_second() / 60 > missed).then_some(()))
    })
    .await?;
    plot.world.operator.process.cont();
    let made_up = plot.first_of(&schedule, Some(&first)).await?;
    plot.patch::<BackupSchedule>("often", json!({ "spec": { "suspend": true } })).await?;
    plot.status::<BackupSchedule>("often", "to be suspended", |status| message(status, "Ready").contains("suspend"))
        .await;
    plot.backup_completes(&made_up).await?;
    let skipped = jiff::Timestamp::from_second(missed * 60)?;
    let made = plot.made_by(&schedule).await?;
    ensure!(made_up.as_str() > backup_name("often", skipped).as_str(), "{made_up} is not of the last time");
    let before = made.iter().filter(|name| name.as_str() <= made_up.as_str()).collect::<Vec<_>>();
    ensure!(before == [&first, &made_up], "more than one is made up for: {made:?}");
    Ok(())
}
