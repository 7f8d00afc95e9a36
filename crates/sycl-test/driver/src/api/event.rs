//! Events and fences.

use std::ffi::c_void;

use super::{functions, give, taken};
use crate::objects::{CONTEXTS, EVENTS, FENCES, Handle, POOLS, Pool, QUEUES, device};
use crate::status::{INVALID_ARGUMENT, NOT_READY, Status};
use crate::structures::{EventDescription, Header, PoolDescription, Timestamps, extensions, kind};
use crate::work::event::{Event, Point, now};

/// The description of an event that counts; only its start is known.
pub(crate) type CounterDescription = Header;

functions! {
    zeEventPoolCreate(
        context: Handle, description: *const PoolDescription, _count: u32, _devices: *mut Handle, pool: *mut Handle,
    ) {
        CONTEXTS.get(context)?;
        let description = taken(description)?;
        let counts = extensions(description.header).any(|extension| (*extension).kind == kind::COUNTER_POOL);
        give(pool, POOLS.insert(Pool { counts, events: description.count }))
    }

    zeEventPoolDestroy(pool: Handle) { POOLS.remove(pool).map(drop) }

    zeEventCreate(pool: Handle, description: *const EventDescription, event: *mut Handle) {
        let (pool, description) = (POOLS.get(pool)?, taken(description)?);
        if description.index >= pool.events {
            return Err(INVALID_ARGUMENT);
        }
        give(event, EVENTS.insert(Event::new(pool.counts)))
    }

    zexCounterBasedEventCreate2(
        context: Handle, handle: Handle, _description: *const CounterDescription, event: *mut Handle,
    ) {
        CONTEXTS.get(context)?;
        device(handle)?;
        give(event, EVENTS.insert(Event::new(true)))
    }

    zeEventCounterBasedCreate(
        context: Handle, handle: Handle, _description: *const CounterDescription, event: *mut Handle,
    ) {
        CONTEXTS.get(context)?;
        device(handle)?;
        give(event, EVENTS.insert(Event::new(true)))
    }

    zeEventDestroy(event: Handle) { EVENTS.remove(event).map(drop) }

    zeEventHostSignal(event: Handle) {
        EVENTS.get(event)?.signal().reach([now(); 2]);
        Ok(())
    }

    zeEventHostReset(event: Handle) {
        let event = EVENTS.get(event)?;
        if !event.counts() {
            event.point().leave();
        }
        Ok(())
    }

    zeEventHostSynchronize(event: Handle, nanoseconds: u64) {
        wait(&EVENTS.get(event)?.point(), nanoseconds)
    }

    zeEventQueryStatus(event: Handle) { wait(&EVENTS.get(event)?.point(), 0) }

    zeEventQueryKernelTimestamp(event: Handle, times: *mut Timestamps) {
        let reached = EVENTS.get(event)?.point().reached().ok_or(NOT_READY)?;
        give(times, Timestamps { global: reached, context: reached })
    }

    zeFenceCreate(queue: Handle, _description: *const c_void, fence: *mut Handle) {
        QUEUES.get(queue)?;
        give(fence, FENCES.insert(Point::default()))
    }

    zeFenceDestroy(fence: Handle) { FENCES.remove(fence).map(drop) }

    zeFenceHostSynchronize(fence: Handle, nanoseconds: u64) { FENCES.get(fence).and_then(|fence| wait(&fence, nanoseconds)) }

    zeFenceQueryStatus(fence: Handle) { FENCES.get(fence).and_then(|fence| wait(&fence, 0)) }

    zeFenceReset(fence: Handle) {
        FENCES.get(fence)?.leave();
        Ok(())
    }
}

fn wait(point: &Point, nanoseconds: u64) -> Result<(), Status> {
    if point.wait(nanoseconds) { Ok(()) } else { Err(NOT_READY) }
}
