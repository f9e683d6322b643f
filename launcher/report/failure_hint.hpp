// The hint of a failure report: what an end or a text that many users have met means, and how it is mended.
// Pure, one table, but for shared_memory_room.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "rendezvous/control/control_message.hpp"

namespace ddprun::inline launch {

// What a file system of limited size holds, in bytes.
struct Room {
    std::int64_t size = 0;
    std::int64_t free = 0;
};

// That of /dev/shm now; nothing where there is none, or none with a limit.
std::optional<Room> shared_memory_room();

// What a hint may go by, besides the failure itself.
struct HintFacts {
    std::string interpreter;    // LaunchOptions::interpreter, which a missing module is often about
    bool sees_one_gpu = false;  // the worker, by --gpu-bind, of several to which LOCAL_RANK counts
    // When the worker had ended. What it alone had there is free again by then: that there is room is no
    // proof.
    std::optional<Room> shared_memory;
};

// One line for Failure::hint, out of the failure's signal, error message, traceback and last lines; empty if
// nothing is known of it.
std::string failure_hint(const Failure& failure, const HintFacts& facts);

}  // namespace ddprun::inline launch
