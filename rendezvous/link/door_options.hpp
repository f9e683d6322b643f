// What a StoreDoor is made of.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "rendezvous/net/port_range.hpp"
#include "rendezvous/system/secret_key.hpp"

namespace ddprun::inline job {

struct StoreDoorOptions {
    SecretKey key;
    std::size_t spared_descriptors = 0;  // of this process, that are not for workers' connections
    FreePorts free_ports = {};
    // Something that the user of this node should know; each sentence once, on the door's thread.
    std::function<void(const std::string& sentence)> on_remark;
};

}  // namespace ddprun::inline job
