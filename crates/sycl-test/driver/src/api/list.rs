//! Command queues and command lists.

use super::{all_of, functions, give, taken};
use crate::objects::{CONTEXTS, EVENTS, FENCES, Handle, LISTS, QUEUES, device};
use crate::structures::{ListDescription, QueueDescription};
use crate::work::job::{Job, Work};
use crate::work::lane::Lane;
use crate::work::list::List;

/// The flag of queues that are in order.
const QUEUE_IN_ORDER: u32 = 2;
/// The flag of command lists that are in order.
const LIST_IN_ORDER: u32 = 8;
/// The mode of queues whose calls return when the work has been done.
const SYNCHRONOUS: u32 = 1;

functions! {
    zeCommandQueueCreate(
        context: Handle, handle: Handle, description: *const QueueDescription, queue: *mut Handle,
    ) {
        CONTEXTS.get(context)?;
        device(handle)?;
        taken(description)?;
        give(queue, QUEUES.insert(Lane::new()))
    }

    zeCommandQueueDestroy(queue: Handle) { QUEUES.remove(queue).map(drop) }

    zeCommandQueueExecuteCommandLists(queue: Handle, count: u32, lists: *const Handle, fence: Handle) {
        let lane = QUEUES.get(queue)?;
        let fence = if fence.is_null() { None } else { Some(FENCES.get(fence)?) };
        for list in all_of(&LISTS, count, lists)? {
            list.execute(&lane)?;
        }
        if let Some(fence) = fence {
            let signal = Some(fence);
            lane.push(Job { work: Work::Nothing, ordered: true, waits: Vec::new(), signal }.into());
        }
        Ok(())
    }

    zeCommandQueueSynchronize(queue: Handle, nanoseconds: u64) { QUEUES.get(queue)?.wait(nanoseconds) }

    zeCommandListCreate(context: Handle, handle: Handle, description: *const ListDescription, list: *mut Handle) {
        CONTEXTS.get(context)?;
        device(handle)?;
        give(list, LISTS.insert(List::regular(taken(description)?.flags & LIST_IN_ORDER != 0)))
    }

    zeCommandListCreateImmediate(
        context: Handle, handle: Handle, description: *const QueueDescription, list: *mut Handle,
    ) {
        CONTEXTS.get(context)?;
        device(handle)?;
        let description = taken(description)?;
        let in_order = description.flags & QUEUE_IN_ORDER != 0;
        give(list, LISTS.insert(List::immediate(in_order, description.mode == SYNCHRONOUS)))
    }

    zeCommandListDestroy(list: Handle) { LISTS.remove(list).map(drop) }

    zeCommandListClose(list: Handle) { LISTS.get(list)?.close() }

    zeCommandListReset(list: Handle) { LISTS.get(list)?.reset() }

    zeCommandListHostSynchronize(list: Handle, nanoseconds: u64) { LISTS.get(list)?.lane()?.wait(nanoseconds) }

    zeCommandListIsImmediate(list: Handle, immediate: *mut u8) {
        give(immediate, u8::from(LISTS.get(list)?.lane().is_ok()))
    }

    zeCommandListImmediateAppendCommandListsExp(
        list: Handle, count: u32, lists: *const Handle, signal: Handle, waiting: u32, waits: *const Handle,
    ) {
        let list = LISTS.get(list)?;
        let waits = all_of(&EVENTS, waiting, waits)?;
        let signal = if signal.is_null() { None } else { Some(EVENTS.get(signal)?) };
        list.append(Work::Nothing, true, &waits, None)?;
        for other in all_of(&LISTS, count, lists)? {
            other.execute(list.lane()?)?;
        }
        list.append(Work::Nothing, true, &[], signal.as_deref())
    }
}
