//! Those who use the hub, and what each may see of it.

pub(crate) mod audit;
mod feed;
mod follower;
mod heard;
pub(crate) mod history;
mod model;
mod operator;
mod plant;
mod pusher;
mod resp_link;
mod resp_subscriber;
mod scribbler;
mod value_reader;
mod writer;
mod zmq_link;
mod zmq_subscriber;

use crate::peer::PeerOfHub;
use crate::plan::Plan;
use crate::random::Random;

/// Those who use a replica.
pub(crate) fn of_replica(plan: &Plan) -> Vec<Box<dyn PeerOfHub>> {
    let mut peers: Vec<Box<dyn PeerOfHub>> = Vec::new();
    for number in 0..plan.writers {
        peers.push(Box::new(follower::Follower::new(number)));
    }
    for number in 0..plan.subscribers {
        peers.push(Box::new(resp_subscriber::RespSubscriber::new(number, true)));
    }
    peers.push(Box::new(operator::Operator::default()));
    peers
}

/// All peers of a plan.
pub(crate) fn all(plan: &Plan, random: &mut Random) -> Vec<Box<dyn PeerOfHub>> {
    let mut peers: Vec<Box<dyn PeerOfHub>> = Vec::new();
    for number in 0..plan.writers {
        peers.push(Box::new(writer::Writer::new(number)));
    }
    for number in 0..plan.scribblers {
        peers.push(Box::new(scribbler::Scribbler::new(number)));
    }
    for number in 0..plan.subscribers {
        peers.push(Box::new(resp_subscriber::RespSubscriber::new(
            number, false,
        )));
        peers.push(Box::new(zmq_subscriber::ZmqSubscriber::new(number)));
    }
    for number in 0..plan.pushers {
        peers.push(Box::new(pusher::Pusher::new(number)));
    }
    for number in 0..plan.publishers {
        peers.push(Box::new(feed::FeedPublisher::new(number, random)));
        peers.push(Box::new(feed::FeedSubscriber::new(number)));
    }
    peers.push(Box::new(value_reader::ValueReader::default()));
    if plan.has_plant {
        peers.push(Box::new(plant::SimulatedPlant::new(random)));
        peers.push(Box::new(plant::TagWriter::default()));
    }
    peers
}
