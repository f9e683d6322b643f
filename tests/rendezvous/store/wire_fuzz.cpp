// libFuzzer's target for the store: any bytes, in any pieces, go through decoder and state; however they are
// cut, the replies must be the same, and what is left when the connections are gone must be nothing.
//
// Built with clang and -DDDPRUN_FUZZ=ON; run as: wire_fuzz -max_total_time=60
#include <algorithm>
#include <map>
#include <string>

#include "rendezvous/base/check.hpp"
#include "rendezvous/store/outbox.hpp"
#include "rendezvous/store/store_state.hpp"
#include "rendezvous/store/wait_table.hpp"
#include "tests/support/outbox_bytes.hpp"

namespace ddprun {
namespace {

constexpr std::size_t kStoreBytes = std::size_t{1} << 20;
constexpr std::size_t kMostPending = std::size_t{1} << 24;

class Replies final : public Outboxes {
  public:
    Outbox& outbox(ConnectionId connection) override { return boxes[connection]; }
    bool has_room(ConnectionId connection, std::size_t bytes) override {
        return boxes[connection].pending() + bytes <= kMostPending;
    }
    std::map<ConnectionId, Outbox> boxes;
};

// Two connections: the input, and a second one that waits for a key and watches another.
std::string serve(std::string_view stream, std::size_t piece) {
    StoreState state(kStoreBytes);
    Replies replies;
    std::string refusal(state.apply(2, {.opcode = Opcode::wait, .keys = {"k"}}, replies).value_or(""));
    refusal += state.apply(2, {.opcode = Opcode::watch_key, .key = "k"}, replies).value_or("");
    RequestDecoder decoder;
    Request request;
    while (!stream.empty() && refusal.empty()) {
        std::string_view next = stream.substr(0, std::min(piece, stream.size()));
        decoder.feed(next);
        stream.remove_prefix(next.size());
        auto status = RequestDecoder::Status::ready;
        while (refusal.empty() && (status = decoder.next(request)) == RequestDecoder::Status::ready) {
            refusal = state.apply(1, request, replies).value_or("");
        }
        if (status == RequestDecoder::Status::refused) refusal = decoder.refusal();
        check(decoder.capacity() <= 2 * (kMaxCommandLength + 4096), "the decoder's buffer is too large");
        check(state.bytes() <= kStoreBytes, "the store holds more than its limit");
    }
    state.remove(1);
    state.remove(2);
    state.clear();
    check(state.bytes() == 0, "the empty store counts bytes");
    std::string all = take_all(replies.boxes[1]) + "|" + take_all(replies.boxes[2]) + "|" + refusal;
    check(state.orphaned_bytes() == 0, "replies that were sent still count");
    return all;
}

}  // namespace
}  // namespace ddprun

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    std::string_view stream(reinterpret_cast<const char*>(data) + 1, size - 1);
    std::size_t piece = 1 + data[0];
    ddprun::check(
        ddprun::serve(stream, piece) == ddprun::serve(stream, std::max<std::size_t>(stream.size(), 1)),
        "the replies depend on how the stream was cut");
    return 0;
}
