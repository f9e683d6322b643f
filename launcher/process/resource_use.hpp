// ResourceUse: what an ended process has used of its machine, with what it had started and waited for.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "rendezvous/codec/description.hpp"

namespace ddprun::inline launch {

struct ResourceUse {
    std::int64_t user_us = 0;  // CPU time in its own code
    std::int64_t system_us = 0;
    std::int64_t max_rss_bytes = 0;  // of the largest single process among them
    std::int64_t page_faults = 0;    // that needed the disk
};
BOOST_DESCRIBE_STRUCT(ResourceUse, (), (user_us, system_us, max_rss_bytes, page_faults))

// Of a child that has ended and was not reaped, which it leaves so; nothing where the system does not say.
std::optional<ResourceUse> use_of_ended(pid_t child);

}  // namespace ddprun::inline launch
