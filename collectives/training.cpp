#include "collectives/training.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>
#include <future>
#include <limits>
#include <optional>
#include <thread>
#include <vector>

#include "rendezvous/system/quiet_thread.hpp"

namespace ddprun {
namespace {

void require_host_memory(const Communicator& communicator, const char* function) {
    if (communicator.backend() == BackendChoice::cpu) return;
    throw CollectiveError(CollectiveErrorCode::invalid_argument,
                          fmt::format("{}: NCCL takes no host memory; use a communicator of the backend cpu "
                                      "beside this one",
                                      function));
}

// Parts up to this size are copied together, into messages of up to kPackedSize.
constexpr std::size_t kSmallPart = std::size_t{64} << 10;
constexpr std::size_t kPackedSize = std::size_t{1} << 20;
// How often those who wait for an action hear that it goes on, at least.
constexpr std::chrono::milliseconds kLongestSilence{10'000};
constexpr std::chrono::milliseconds kShortestSilence{1};
constexpr std::size_t kMaxFailureText = 4096;

enum class ActionState : std::uint8_t { running, done, failed };

std::string text_of(const std::exception_ptr& thrown) {
    try {
        std::rethrow_exception(thrown);
    } catch (const std::exception& error) {
        return error.what();
    } catch (...) {
        return "something that is no std::exception was thrown";
    }
}

void tell_end(Communicator& communicator, int rank, const std::exception_ptr& thrown) {
    auto state = static_cast<std::uint8_t>(thrown ? ActionState::failed : ActionState::done);
    communicator.broadcast(std::span(&state, 1), rank);
    if (!thrown) return;
    std::array<std::uint8_t, kMaxFailureText> text{};
    const std::string what = text_of(thrown);
    std::copy_n(what.begin(), std::min(what.size(), text.size()), text.begin());
    communicator.broadcast(std::span(text), rank);
}

// Tells the other ranks that the action goes on, until it has ended. What ended the communicator meanwhile.
std::optional<CollectiveError> keep_telling(Communicator& communicator, int rank,
                                            const std::future<void>& ended) {
    const std::chrono::milliseconds interval =
        std::clamp(communicator.options().operation_timeout / 4, kShortestSilence, kLongestSilence);
    try {
        while (ended.wait_for(interval) == std::future_status::timeout) {
            auto state = static_cast<std::uint8_t>(ActionState::running);
            communicator.broadcast(std::span(&state, 1), rank);
        }
    } catch (const CollectiveError& error) {
        return error;
    }
    return std::nullopt;
}

void act(Communicator& communicator, int rank, const std::function<void()>& action) {
    std::exception_ptr thrown;
    std::optional<CollectiveError> failure;
    std::promise<void> end;
    const std::future<void> ended = end.get_future();
    std::thread teller = start_without_signals([&] { failure = keep_telling(communicator, rank, ended); });
    try {
        action();
    } catch (...) {
        thrown = std::current_exception();
    }
    end.set_value();
    teller.join();
    if (failure && !thrown) throw *failure;
    if (!failure) tell_end(communicator, rank, thrown);
    if (thrown) std::rethrow_exception(thrown);
}

void await_action(Communicator& communicator, int rank) {
    auto state = static_cast<std::uint8_t>(ActionState::running);
    while (state == static_cast<std::uint8_t>(ActionState::running))
        communicator.broadcast(std::span(&state, 1), rank);
    if (state == static_cast<std::uint8_t>(ActionState::done)) return;
    std::array<std::uint8_t, kMaxFailureText> text{};
    communicator.broadcast(std::span(text), rank);
    const std::string what(text.begin(), std::find(text.begin(), text.end(), 0));
    throw ActionFailed(fmt::format("run_on_rank: the action failed on rank {}: {}", rank, what));
}

// Broadcasts small parts as one message.
void broadcast_packed(Communicator& communicator, std::span<const StatePart> parts, std::size_t bytes,
                      int root) {
    std::vector<std::uint8_t> packed(bytes);
    std::size_t place = 0;
    for (const StatePart& part : parts) {
        if (part.bytes > 0) std::memcpy(packed.data() + place, part.data, part.bytes);
        place += part.bytes;
    }
    communicator.broadcast(std::span(packed), root);
    place = 0;
    for (const StatePart& part : parts) {
        if (part.bytes > 0) std::memcpy(part.data, packed.data() + place, part.bytes);
        place += part.bytes;
    }
}

}  // namespace

void average(Communicator& communicator, std::span<double> values, double weight) {
    require_host_memory(communicator, "average");
    std::vector<double> sums(values.begin(), values.end());
    // A rank without samples has no say, not even with the NaN it may have for a mean.
    for (double& sum : sums) sum = weight == 0 ? 0 : sum * weight;
    sums.push_back(weight);
    communicator.all_reduce(std::span(sums), ReduceOp::sum);
    const double total = sums.back();
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = total == 0 ? std::numeric_limits<double>::quiet_NaN() : sums[i] / total;
}

double average(Communicator& communicator, double value, double weight) {
    average(communicator, std::span(&value, 1), weight);
    return value;
}

void broadcast_state(Communicator& communicator, std::span<const StatePart> parts, int root) {
    require_host_memory(communicator, "broadcast_state");
    std::size_t begin = 0;
    while (begin < parts.size()) {
        if (parts[begin].bytes > kSmallPart) {
            communicator.broadcast(parts[begin].data, parts[begin].bytes, DataType::u8, root);
            ++begin;
            continue;
        }
        std::size_t end = begin;
        std::size_t bytes = 0;
        while (end < parts.size() && parts[end].bytes <= kSmallPart && bytes <= kPackedSize)
            bytes += parts[end++].bytes;
        broadcast_packed(communicator, parts.subspan(begin, end - begin), bytes, root);
        begin = end;
    }
}

void run_on_rank(Communicator& communicator, int rank, const std::function<void()>& action) {
    if (rank < 0 || rank >= communicator.world_size()) {
        throw CollectiveError(CollectiveErrorCode::invalid_argument,
                              fmt::format("run_on_rank: rank {} is not a rank of this communicator (0..{})",
                                          rank, communicator.world_size() - 1));
    }
    require_host_memory(communicator, "run_on_rank");
    // This comes before the action is begun.
    const Status status = communicator.status();
    if (status.code() == CollectiveErrorCode::invalid_argument) status.throw_if_failed();
    if (communicator.rank() == rank) return act(communicator, rank, action);
    await_action(communicator, rank);
}

}  // namespace ddprun
