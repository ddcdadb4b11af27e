//! What the author of a class must hold: the operator acts with its own rights on whatever stands in a class, so nobody puts into one
//! what he could not make himself in every namespace.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{manifest::group_of, resources::Policy, template::is_template};

const RBAC: &str = "rbac.authorization.k8s.io";

/// More rights than this of one Role are not asked for one by one,
const MOST_OF_A_ROLE: usize = 100;
/// nor more than this of one class.
const MOST_OF_A_CLASS: usize = 1000;

/// A right on all of a resource in the whole cluster, or on one object of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    pub verb: String,
    pub group: String,
    pub resource: String,
    pub name: Option<String>,
}

impl Right {
    fn new(verb: &str, group: &str, resource: &str) -> Self {
        Self { verb: verb.to_owned(), group: group.to_owned(), resource: resource.to_owned(), name: None }
    }

    /// Whoever has this may put anything into any class.
    pub fn over_classes() -> Self {
        Self::new("escalate", "akuity.io", "namespaceclasses")
    }

    /// What nobody needs to be asked about who holds it.
    fn to_everything() -> Self {
        Self::new("*", "*", "*")
    }

    /// What it takes to set labels and annotations of namespaces.
    pub fn over_namespaces() -> Self {
        Self::new("patch", "", "namespaces")
    }

    /// As a rule of RBAC.
    pub fn rule(&self) -> String {
        let Self { verb, group, resource, name } = self;
        let names = name.as_ref().map(|name| format!(", resourceNames: [{name}]")).unwrap_or_default();
        format!("{{apiGroups: [\"{group}\"], resources: [{resource}]{names}, verbs: [{verb}]}}")
    }
}

/// What one item asks of its author.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// All of these.
    pub all: Vec<Right>,
    /// Or all of these in place of the last ones: who holds this is asked for no more.
    pub or: Option<Right>,
}

/// What a whole class asks of its author: each item by its index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demands(Vec<(usize, Asked)>);

impl Demands {
    pub fn of(asked: impl IntoIterator<Item = (usize, Asked)>) -> Self {
        let mut demands = Self(asked.into_iter().filter(|(_, asked)| !asked.all.is_empty()).collect());
        if demands.rights().len() > MOST_OF_A_CLASS {
            for (_, asked) in demands.0.iter_mut().filter(|(_, asked)| asked.or.is_some()) {
                asked.all = vec![Right::to_everything()];
            }
        }
        demands
    }

    /// What to find out about the author, each right once.
    pub fn rights(&self) -> BTreeSet<Right> {
        self.0.iter().flat_map(|(_, asked)| asked.all.iter().chain(&asked.or)).cloned().collect()
    }

    /// The first item whose author does not hold what it asks for, and the first right missing there.
    pub fn unmet<'d>(&'d self, held: &BTreeMap<Right, bool>) -> Option<(usize, &'d Right)> {
        let holds = |right: &Right| held.get(right).copied().unwrap_or_default();
        self.0.iter().filter(|(_, asked)| !asked.or.as_ref().is_some_and(holds)).find_map(|(index, asked)| {
            let missing = asked.all.iter().find(|right| !holds(right))?;
            Some((*index, missing))
        })
    }
}

/// What a class does with objects, by what it says: one that takes over what others have made changes it, and one that replaces it
/// has it as its own, to be deleted with the class.
pub fn verbs(policy: Policy) -> &'static [&'static str] {
    match policy {
        Policy { replace: true, .. } => &["create", "patch", "delete"],
        Policy { adopt: true, .. } => &["create", "patch"],
        Policy { .. } => &["create"],
    }
}

/// What an item asks for: to do this with its kind, and to hold what it gives. `resource` is what its kind is called in paths, where
/// that is known.
pub fn asked(item: &Map<String, Value>, resource: Option<&str>, verbs: &[&str]) -> [Asked; 2] {
    let text = |field: &str| item.get(field).and_then(Value::as_str).unwrap_or_default();
    let (group, kind) = (group_of(text("apiVersion")), text("kind"));
    // Of a kind that is not there only who may make everything of its group can say that he may make it.
    let make = verbs.iter().map(|verb| Right::new(verb, group, resource.unwrap_or("*")));
    let make = Asked { all: make.collect(), or: None };
    let grant = match (group, kind) {
        (RBAC, "Role") => Asked { all: held(item), or: Some(Right::new("escalate", RBAC, "roles")) },
        (RBAC, "RoleBinding") => Asked { all: bound(item), or: None },
        _ => Asked::default(),
    };
    [make, grant]
}

/// Everything the rules of a Role give: as RBAC has it, nobody hands out what he does not hold.
fn held(role: &Map<String, Value>) -> Vec<Right> {
    let rules = role.get("rules").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut rights = Vec::new();
    for rule in rules {
        let texts = |field: &str| -> Vec<&str> {
            rule.get(field).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
        };
        let names = texts("resourceNames");
        let names: Vec<_> = if names.is_empty() { vec![None] } else { names.into_iter().map(Some).collect() };
        for group in texts("apiGroups") {
            for resource in texts("resources") {
                for verb in texts("verbs") {
                    for name in &names {
                        if rights.len() >= MOST_OF_A_ROLE {
                            return vec![Right::to_everything()];
                        }
                        rights.push(Right { name: name.map(str::to_owned), ..Right::new(verb, group, resource) });
                    }
                }
            }
        }
    }
    rights
}

/// To bind a role takes the right to bind it; of which kind it is, too, may be known in each namespace only.
fn bound(binding: &Map<String, Value>) -> Vec<Right> {
    let reference = |field: &str| binding.get("roleRef").and_then(|role| role.get(field)).and_then(Value::as_str);
    let resources: &[_] = match reference("kind") {
        Some("Role") => &["roles"],
        Some(kind) if is_template(kind) => &["clusterroles", "roles"],
        _ => &["clusterroles"],
    };
    let name = reference("name").filter(|name| !is_template(name)).map(str::to_owned);
    resources.iter().map(|resource| Right { name: name.clone(), ..Right::new("bind", RBAC, resource) }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rules(item: &Value, resource: Option<&str>) -> Vec<String> {
        let asked = asked(item.as_object().unwrap(), resource, verbs(Policy::default()));
        asked.iter().flat_map(|asked| &asked.all).map(Right::rule).collect()
    }

    #[test]
    fn who_writes_a_class_could_make_what_is_in_it_and_hold_what_it_gives() {
        let secret = json!({"apiVersion": "v1", "kind": "Secret"});
        assert_eq!(rules(&secret, Some("secrets")), [r#"{apiGroups: [""], resources: [secrets], verbs: [create]}"#]);
        let unknown = json!({"apiVersion": "x.dev/v1", "kind": "Lamp"});
        assert_eq!(rules(&unknown, None), [r#"{apiGroups: ["x.dev"], resources: [*], verbs: [create]}"#]);
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "rules": [
            {"apiGroups": [""], "resources": ["pods", "secrets"], "verbs": ["get"], "resourceNames": ["a"]},
        ]});
        assert_eq!(
            rules(&role, Some("roles"))[1..],
            [
                r#"{apiGroups: [""], resources: [pods], resourceNames: [a], verbs: [get]}"#,
                r#"{apiGroups: [""], resources: [secrets], resourceNames: [a], verbs: [get]}"#,
            ]
        );
        let binding = |name: &str| {
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                   "roleRef": {"kind": "ClusterRole", "name": name}})
        };
        let bind = |name: &str| rules(&binding(name), Some("rolebindings"))[1].clone();
        assert!(bind("admin").contains("resources: [clusterroles], resourceNames: [admin], verbs: [bind]"));
        assert!(!bind("{{ params.role }}").contains("resourceNames"), "whichever it turns out to be");
        let mut either = binding("admin");
        either["roleRef"]["kind"] = "{{ params.kind }}".into();
        assert_eq!(rules(&either, Some("rolebindings")).len(), 3, "a ClusterRole or a Role");
    }

    #[test]
    fn who_lets_a_class_take_over_what_others_made_could_change_it_and_who_replaces_it_delete_it() {
        let of = |adopt: bool, replace: bool| verbs(Policy { adopt, replace, ..Policy::default() });
        assert_eq!(of(false, false), ["create"]);
        assert_eq!(of(true, false), ["create", "patch"]);
        assert_eq!(of(false, true), ["create", "patch", "delete"]);
    }

    fn role(verbs: &[String]) -> Asked {
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "rules": [
            {"apiGroups": [""], "resources": ["pods"], "verbs": verbs},
        ]});
        let [_, grant] = asked(role.as_object().unwrap(), Some("roles"), &["create"]);
        grant
    }

    #[test]
    fn each_right_is_asked_for_once_and_the_first_missing_one_is_told_by_its_item() {
        let verbs = |verbs: &[&str]| role(&verbs.iter().map(|verb| (*verb).to_owned()).collect::<Vec<_>>());
        let demands = Demands::of([(0, verbs(&["get"])), (1, Asked::default()), (2, verbs(&["get", "list"]))]);
        let rights = demands.rights();
        assert_eq!(rights.len(), 3, "get, list, and escalate in their place: {rights:?}");
        let holding = |verbs: &[&str]| {
            let held = |right: &Right| verbs.contains(&right.verb.as_str());
            rights.iter().map(|right| (right.clone(), held(right))).collect::<BTreeMap<_, _>>()
        };
        assert_eq!(demands.unmet(&holding(&["get", "list"])), None);
        assert_eq!(demands.unmet(&holding(&["escalate"])), None);
        assert_eq!(
            demands.unmet(&holding(&["get"])).map(|(index, right)| (index, right.verb.as_str())),
            Some((2, "list"))
        );
        assert_eq!(demands.unmet(&BTreeMap::new()).map(|(index, _)| index), Some(0), "what nobody knows is not held");
    }

    #[test]
    fn a_class_that_asks_for_very_much_is_for_who_holds_everything() {
        let roles =
            (0..20).map(|index| (index, role(&(0..60).map(|number| format!("{index}-{number}")).collect::<Vec<_>>())));
        let demands = Demands::of(roles);
        let rights = demands.rights();
        let holding =
            |verb: &str| rights.iter().map(|right| (right.clone(), right.verb == verb)).collect::<BTreeMap<_, _>>();
        assert_eq!(rights.len(), 2, "everything, or escalate in its place: {rights:?}");
        assert!(demands.unmet(&holding("*")).is_none() && demands.unmet(&holding("escalate")).is_none());
        assert_eq!(demands.unmet(&BTreeMap::new()).map(|(_, right)| right.verb.as_str()), Some("*"));
    }

    #[test]
    fn a_role_that_gives_very_much_is_for_who_holds_everything() {
        let verbs: Vec<_> = (0..200).map(|number| number.to_string()).collect();
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "rules": [
            {"apiGroups": [""], "resources": ["pods"], "verbs": verbs},
        ]});
        assert_eq!(rules(&role, Some("roles"))[1..], [r#"{apiGroups: ["*"], resources: [*], verbs: [*]}"#]);
    }
}
