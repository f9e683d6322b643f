#include "collectives/shm/shm_probe.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

#include "collectives/shm/shm_pipeline.hpp"

namespace ddprun {
namespace {

constexpr std::size_t kElements = std::size_t{16} << 10;
constexpr int kTries = 6;
// Plain stores leave what is written in a cache, from where other uses of it gain too.
constexpr double kWorthIt = 0.8;

}  // namespace

StoreType probe_store_type(ShmChannel& channel, const PeerMesh::Operation& joining) {
    if (channel.is_crowded()) return StoreType::plain;
    using Time = std::chrono::duration<double>;
    std::vector<float> data(kElements);
    auto* bytes = reinterpret_cast<std::byte*>(data.data());
    std::array<Time, 2> best{Time::max(), Time::max()};
    for (int i = 0; i < kTries; ++i) {
        for (const StoreType type : {StoreType::plain, StoreType::non_temporal}) {
            const ShmTurn turn(channel, joining);
            channel.set_store_type(type);
            const auto begin = std::chrono::steady_clock::now();
            ShmPipeline(channel, DataType::f32, ReduceOp::max).all_reduce(bytes, bytes, kElements);
            const Time time = std::chrono::steady_clock::now() - begin;
            Time& least = best[static_cast<std::size_t>(type)];
            // The first of all only brings the pages in.
            if (i > 0) least = std::min(least, time);
        }
    }
    return best[1] < kWorthIt * best[0] ? StoreType::non_temporal : StoreType::plain;
}

}  // namespace ddprun
