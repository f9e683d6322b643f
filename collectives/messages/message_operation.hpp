// MessageOperation: one send or receive of a messenger, from its call to its end.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/error.hpp"
#include "collectives/messages/message_matcher.hpp"
#include "rendezvous/base/deadline.hpp"

namespace ddprun {
inline namespace detail {

struct MessageRequest {
    bool sends = false;
    const void* in = nullptr;
    void* out = nullptr;
    std::size_t bytes = 0;
    int peer = kAnyRank;
    std::uint64_t tag = 0;  // in turn: the sender's rank
    std::chrono::milliseconds timeout{0};
    std::uint8_t element = 0;  // see MessageFrame
};

inline constexpr char kMessengerClosed[] = "this communicator has been finalized";

// Returns the call's name: `send_tagged`.
std::string name_of(const MessageRequest& request);
// Returns what is asked: `send_tagged(8 bytes to rank 1, tag 5)`.
std::string describe(const MessageRequest& request);
// Throws invalid_argument for a wrong request.
void check_request(const MessageRequest& request, int world_size);

// Returns whether what has come is what the receive has room for.
inline bool fits(const MessageRequest& receive, const ArrivedMessage& message) {
    return message.bytes == receive.bytes && message.element == receive.element;
}

// MessageOperation is used under the messenger's lock, but for `request` and has_ended(); after the end its
// owner reads the rest.
struct MessageOperation {
    enum class Stage { open, pulling };

    explicit MessageOperation(const MessageRequest& what) : request(what) {}

    int peer() const noexcept { return request.peer; }
    std::uint64_t tag() const noexcept { return request.tag; }
    std::uint64_t number() const noexcept { return sequence; }
    bool is_by_tag() const noexcept { return request.element == 0; }
    bool has_ended() const noexcept { return ended.load(std::memory_order_acquire); }

    const MessageRequest request;
    std::shared_ptr<void> self;        // keeps a started one while it is open
    MessageOperation* next = nullptr;  // of the open ones
    MessageOperation* previous = nullptr;
    std::uint64_t sequence = 0;  // in which operations were made
    Deadline deadline = Deadline::max();
    std::uint32_t offer = 0;  // 1 + the offer's id; 0: not offered
    Stage stage = Stage::open;
    int source = -1;
    std::uint64_t sent_bytes = 0;  // after a mismatch
    std::uint8_t sent_element = 0;
    std::optional<CollectiveError> error;
    std::vector<std::function<void()>> then;
    std::atomic<bool> ended{false};
};

}  // namespace detail
}  // namespace ddprun
