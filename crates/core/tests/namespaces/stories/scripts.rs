//! The stories.

use croft_core::namespaces::resources::Policy;

use super::teller::Teller;
use crate::{
    explorer::at_rest,
    world::{ClassSpec, Sight, World, class, item},
};

pub type Story = fn(&mut Teller);

/// Each by the name of its file.
pub const STORIES: [(&str, Story); 9] = [
    ("label-a-namespace", label_a_namespace),
    ("switch-the-class", switch_the_class),
    ("update-the-class", update_the_class),
    ("delete-the-class", delete_the_class),
    ("drift", drift),
    ("conflict", conflict),
    ("immutable", immutable),
    ("out-of-sight", out_of_sight),
    ("a-label-in-vain", a_label_in_vain),
];

fn gold() -> ClassSpec {
    class(&["limits", "welcome"])
}

fn with(policy: Policy) -> ClassSpec {
    ClassSpec { policy, ..gold() }
}

/// A namespace that asks for class gold.
fn labelled(gold: ClassSpec) -> World {
    World { label: Some("gold"), ..World::new([("gold", gold)]) }
}

fn label_a_namespace(teller: &mut Teller) {
    teller.title(
        "A namespace is labelled",
        "The label names a class: the namespace is bound to it and gets its objects. When the label goes, so do they.",
    );
    let labels = [("tier".to_owned(), "gold".to_owned())].into();
    let mut world = teller.given(World::new([("gold", ClassSpec { labels, ..gold() })]));
    teller.event(&mut world, "the owner labels the namespace with gold", |world| world.label = Some("gold"));
    teller.event(&mut world, "the owner takes the label off", |world| world.label = None);
}

fn switch_the_class(teller: &mut Teller) {
    teller.title(
        "A namespace changes its class",
        "New objects first, and only when all of them stand the old ones go. What both classes have stays the same object.",
    );
    let classes = [("gold", gold()), ("silver", class(&["limits", "notice"]))];
    let mut world = teller.given(World { label: Some("gold"), ..World::new(classes) });
    teller.event(&mut world, "the owner labels the namespace with silver", |world| world.label = Some("silver"));
}

fn update_the_class(teller: &mut Teller) {
    teller.title(
        "A class changes",
        "Every namespace follows, in place. What the class drops goes when all the rest stands.",
    );
    let mut world = teller.given(labelled(gold()));
    teller.event(&mut world, "the administrator changes a value of limits", |world| {
        world.class_mut("gold").items[0] = item("limits", Some("more"));
    });
    teller.event(&mut world, "the administrator adds notice and drops welcome", |world| {
        world.class_mut("gold").items[1] = item("notice", Some("v"));
    });
    teller.event(&mut world, "the administrator drops the value of limits", |world| {
        world.class_mut("gold").items[0] = item("limits", None);
    });
}

fn delete_the_class(teller: &mut Teller) {
    teller.title("A class is deleted", "What becomes of its objects is the class's choice: policy.onClassDelete.");
    let delete = |world: &mut World| {
        if world.classes["gold"].held {
            world.class_mut("gold").deleting = true;
        } else {
            world.classes.remove("gold");
        }
    };
    teller.policy("onClassDelete: Delete");
    let mut world = teller.given(labelled(gold()));
    teller.event(&mut world, "the administrator deletes the class", delete);
    teller.policy("onClassDelete: Orphan");
    let mut world = teller.given(labelled(with(Policy { orphan_on_class_delete: true, ..Policy::default() })));
    teller.event(&mut world, "the administrator deletes the class", delete);
    teller.policy("onClassDelete: Block");
    let mut world = teller.given(labelled(with(Policy { block_class_delete: true, ..Policy::default() })));
    teller.event(&mut world, "the administrator deletes the class", delete);
    teller.event(&mut world, "the owner takes the label off", |world| world.label = None);
}

fn drift(teller: &mut Teller) {
    teller.title(
        "Somebody changes what a class set",
        "It is put back; what others add is left alone. With policy.onDrift it is only reported.",
    );
    let edit = |world: &mut World| world.object_mut("limits").data = Some("edited".into());
    teller.policy("onDrift: Correct");
    let mut world = teller.given(labelled(gold()));
    teller.event(&mut world, "somebody edits the value of limits", edit);
    teller.event(&mut world, "somebody adds a field to limits", |world| world.object_mut("limits").additions = true);
    teller.event(&mut world, "somebody deletes welcome", |world| drop(world.objects.remove("welcome")));
    teller.event(&mut world, "somebody takes our label off limits", |world| world.object_mut("limits").stamp = None);
    teller.event(&mut world, "somebody takes label and owner off welcome", |world| {
        let object = world.object_mut("welcome");
        (object.owner, object.stamp) = (None, None);
    });
    teller.policy("onDrift: Report");
    let mut world = teller.given(labelled(with(Policy { report_drift: true, ..Policy::default() })));
    teller.event(&mut world, "somebody edits the value of limits", edit);
    teller.event(&mut world, "somebody puts the value back", |world| {
        world.object_mut("limits").data = Some("v".into());
    });
}

fn conflict(teller: &mut Teller) {
    teller.title(
        "The name of an object is taken",
        "What is not ours is left alone and reported; everything else goes on. With policy.onConflict it is adopted, and released later.",
    );
    let taken = |gold: ClassSpec| {
        let mut world = World::new([("gold", gold)]);
        world.stranger_makes("limits");
        world
    };
    teller.policy("onConflict: Refuse");
    let mut world = teller.given(taken(gold()));
    teller.event(&mut world, "the owner labels the namespace with gold", |world| world.label = Some("gold"));
    teller.event(&mut world, "somebody deletes the object in the way", |world| drop(world.objects.remove("limits")));
    teller.policy("onConflict: Adopt");
    let mut world = teller.given(taken(with(Policy { adopt: true, ..Policy::default() })));
    teller.event(&mut world, "the owner labels the namespace with gold", |world| world.label = Some("gold"));
    teller.event(&mut world, "the owner takes the label off", |world| world.label = None);
}

fn immutable(teller: &mut Teller) {
    teller.title(
        "A field cannot be changed in place",
        "The refusal is reported, and nothing is removed meanwhile. With policy.onImmutable the object is made anew.",
    );
    let start = |gold: ClassSpec| {
        let mut world = at_rest(&labelled(gold));
        world.object_mut("limits").immutable = true;
        world
    };
    let change = |world: &mut World| world.class_mut("gold").items = vec![item("limits", Some("more"))];
    teller.policy("onImmutable: Fail");
    let mut world = teller.given(start(gold()));
    teller.event(&mut world, "the administrator changes limits and drops welcome", change);
    teller.event(&mut world, "the administrator takes the change of limits back", |world| {
        world.class_mut("gold").items = vec![item("limits", Some("v"))];
    });
    teller.policy("onImmutable: Recreate");
    let mut world = teller.given(start(with(Policy { recreate_immutable: true, ..Policy::default() })));
    teller.event(&mut world, "the administrator changes limits and drops welcome", change);
}

fn out_of_sight(teller: &mut Teller) {
    teller.title(
        "A kind cannot be observed",
        "What cannot be seen is neither touched nor forgotten; everything else of the class goes on.",
    );
    let mut world = teller.given(labelled(class(&["limits", "gadget"])));
    teller.event(&mut world, "the API of widgets goes away", |world| world.widgets = Sight::Away);
    teller.event(&mut world, "the administrator changes limits and drops gadget", |world| {
        world.class_mut("gold").items = vec![item("limits", Some("more"))];
    });
    teller.event(&mut world, "the owner takes the label off", |world| world.label = None);
    teller.event(&mut world, "the API of widgets comes back", |world| world.widgets = Sight::Clear);
}

fn a_label_in_vain(teller: &mut Teller) {
    teller.title(
        "A label names no class",
        "Nothing is bound; a bound namespace keeps what it has, and says why it does not follow.",
    );
    let classes = [("gold", class(&["limits"])), ("silver", class(&["notice"]))];
    let mut world = teller.given(World::new(classes));
    teller.event(&mut world, "the owner labels the namespace with glod", |world| world.label = Some("glod"));
    teller.event(&mut world, "the owner corrects it to gold", |world| world.label = Some("gold"));
    teller.event(&mut world, "the owner labels it with bronze, which does not exist", |world| {
        world.label = Some("bronze");
    });
    teller.event(&mut world, "the owner empties the label", |world| world.label = Some(""));
    teller.event(&mut world, "the owner labels it with silver, which is being deleted", |world| {
        let class = world.class_mut("silver");
        (class.deleting, class.held) = (true, true);
        class.policy.block_class_delete = true;
        world.label = Some("silver");
    });
}
