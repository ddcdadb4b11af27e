//! Backups and restores for tenants, on real Kubernetes, Velero and Ceph, as the operator's own `ServiceAccount`.
//!
//! Whatever a tenant does she does with the rights Kubernetes' own `admin` has in her namespace. Which promise is kept where (`core`: by
//! exploration of small worlds in `crates/core/tests/backup/`, or beside the function):
//!
//! | promise | tests |
//! | --- | --- |
//! | identity is nothing a tenant or a bucket can write | `injection`, `sync::a_forged_claim_to_what_velero_has_is_refused`, `downloads::what_another_tenant_has_cannot_be_downloaded` |
//! | nothing foreign is deleted or copied from | `backups::somebody_elses_velero_backup_is_never_touched`, core |
//! | what Velero finds goes to the namespace of its location | `injection`, `sync` |
//! | a bucket of her own tells Velero of nothing but her own backups, and deletes nobody's snapshots | `injection`, `own_buckets` |
//! | an archive, and what lies beside it, brings and takes nothing that is not hers, also while no operator runs | `hostile`, `beside`, `fences` |
//! | claims come back without the volumes of the archive | `volumes`, `fences` |
//! | two locations never share a place, a prefix stays inside | `locations::a_second_location_in_the_same_place_waits_until_it_is_free`, core |
//! | credentials are keys and nothing else | `locations::credentials_that_are_more_than_keys_never_reach_velero` |
//! | `config`, hosts and objects beside Velero are restricted | `locations::a_location_that_would_borrow_or_reach_anything_is_refused_at_the_door`, `fields`, core |
//! | Secrets are never kept whole | `secrets` |
//! | an administrator may forbid hooks | `hooks`, `fences::hooks_of_pods_do_not_last_and_are_none_where_there_are_none` |
//! | objects without a spec, a credential, a record or what they speak of disturb nobody | `oddities` |
//! | signed URLs live shortly and are printed nowhere | `downloads::a_request_is_gone_once_its_url_has_expired`, core |
//! | a place in Velero's queue is told, advances, and is nobody's who leaves | `queue`, core |
//! | changed settings count at once for whoever they concern | `reloads`, `applications` |
//! | one namespace cannot fill Velero's queue, and what waits elsewhere costs nobody in it a turn | `limits`, `queue`, `at_work`, `fences::hooks_of_pods_do_not_last_and_are_none_where_there_are_none`, core |
//! | a bucket of her own needs somebody's trust; a vault needs nobody's | `approvals`, `vaults` |
//! | a request that was never filled in is | `approvals::a_request_that_was_never_filled_in_is`, `kill` |
//! | deletion is asked for again, told, and never holds a namespace | `backups`, `away`, `still`, core |
//! | what waits where nothing can be stored costs nobody else a turn; a restore waits for its location | `withdrawn`, core |
//! | requests beyond what is read hold nobody up | `unreadable` |
//! | why data is not deleted is told | `deletions`, core |
//! | a backup never runs twice, nor a restore | `backups::a_backup_that_velero_has_lost_is_told_and_never_run_again`, `restores::a_restore_that_velero_has_lost_is_told_and_never_run_again`, `kill`, `deaths`, `ends`, core |
//! | a phase never flaps, conditions end with their cause | `locations::a_settled_location_is_left_alone_while_velero_keeps_checking_it`, core |
//! | a rotated Secret reaches Velero | `locations::a_changed_secret_and_a_changed_spec_reach_velero` |
//! | keys that somebody writes beside Velero are put right | `locations::keys_that_somebody_writes_into_the_copy_are_put_right_and_then_nothing_is_written_any_more`, core |
//! | what comes back is accepted like what was asked for | `sync::the_backups_of_a_vault_that_is_made_again_come_back_and_can_be_restored` |
//! | what is left of requests that are gone goes | `leftovers`, `away`, core |
//! | what an administrator enforces counts at once | `applications`, core |
//! | what a restore left out is told | `restores::what_a_restore_leaves_out_is_told_by_kind_with_the_reason`, core |
//! | a client of the published API works unchanged | `clients`, `backups::a_backup_that_velero_has_is_not_changed_any_more` |
//! | what Velero's kinds do not know is asked for once | `pruned`, core |
//! | what its administrator restores himself comes back, and what is kept only when he says so | `administrators`, `remade` |
//! | whom the default location trusts | `default_location` |
//! | that Velero's repositories have the password everybody has is told | `password`, core |
//! | what a restore brought back does not run | `backups::a_request_that_a_restore_brought_back_is_not_carried_out_again` |

#[path = "../support/mod.rs"]
mod support;

mod administrators;
mod applications;
mod approvals;
mod at_work;
mod away;
mod backups;
mod beside;
mod clients;
mod deaths;
mod default_location;
mod deletions;
mod downloads;
mod ends;
mod fences;
mod fields;
mod hooks;
mod hostile;
mod injection;
mod kill;
mod leftovers;
mod limits;
mod locations;
mod lost_keys;
mod oddities;
mod own_buckets;
mod password;
mod plot;
mod pruned;
mod queue;
mod reloads;
mod remade;
mod restores;
mod schedules;
mod secrets;
mod still;
mod sync;
mod uninstalled;
mod unreadable;
mod vaults;
mod volumes;
mod wakes;
mod withdrawn;
