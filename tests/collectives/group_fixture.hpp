// What the tests of groups have in common: the layouts of ranks they run on.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "collectives/group.hpp"
#include "collectives/wire/frame.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/thread_ranks.hpp"

namespace ddprun {

// Larger than what the buffers of one lane hold; those of kMaxLanes may hold two such messages.
inline constexpr std::size_t kLarge = (std::size_t{6} << 20) / sizeof(int) + 3;

// On one host, where DDPRUN_TRANSPORT decides, and on several; by one connection for each direction, and by
// as many as there may be.
inline void on_every_layout(const std::vector<int>& world_sizes,
                            const std::function<void(Communicator&)>& body) {
    CommunicatorOptions options;
    options.operation_timeout = std::chrono::seconds(60);  // only a group that waits for itself comes near it
    for (const int lanes : {1, kMaxLanes}) {
        for (const int n : world_sizes) {
            INFO(n << " ranks on one host, " << lanes << " lanes");
            run_on_hosts(std::vector<std::string>(static_cast<std::size_t>(n)), body, options, lanes);
        }
        INFO("2 hosts with 2 ranks, " << lanes << " lanes");
        run_on_hosts(host_names(2, 2), body, options, lanes);
    }
    INFO("hosts of 2 ranks and of 1");
    run_on_hosts({"a", "b", "b"}, body, options);
}

// Different everywhere, and made by copying blocks: filling one element after the other takes long where
// memory is watched.
inline std::vector<int> values(std::size_t count, int first) {
    std::array<int, 1021> block{};
    std::iota(block.begin(), block.end(), first);
    std::vector<int> data(count);
    for (std::size_t done = 0; done < count; done += block.size()) {
        block[0] = first + static_cast<int>(done);
        std::memcpy(data.data() + done, block.data(), std::min(block.size(), count - done) * sizeof(int));
    }
    return data;
}

}  // namespace ddprun
