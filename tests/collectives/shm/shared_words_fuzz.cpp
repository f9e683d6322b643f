// libFuzzer's target for what a rank of the same host may have written into the shared memory: any bytes, as
// the cells and the ring of its messages, as the place of a buffer, and as the record of why it gave up. What
// is taken of them lies where it may.
//
// Built with clang and -DDDPRUN_FUZZ=ON; run as: shared_words_fuzz -max_total_time=60
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/liveness/lifeline_state.hpp"
#include "collectives/messages/message_frames.hpp"
#include "collectives/messages/shm_message_line.hpp"
#include "collectives/shm/message_memory.hpp"
#include "collectives/wire/tcp_link.hpp"
#include "rendezvous/base/check.hpp"

namespace ddprun {
namespace {

// The input is what the sender has put into its cells, and behind them into its ring.
void take_messages(std::span<const std::uint8_t> input) {
    const MessageLayout layout(2);
    const std::unique_ptr<std::byte, void (*)(void*)> room(
        static_cast<std::byte*>(std::aligned_alloc(kRingUnit, layout.size())), std::free);
    std::byte* const base = room.get();
    std::memset(base, 0, layout.ring(0, 0));
    const MessageMemory memory(base, 2, 0);
    for (std::size_t number = 0; number < layout.cells() && !input.empty(); ++number) {
        MessageCell& cell = memory.cell(0, 1, number);
        const std::size_t bytes = std::min(input.size(), sizeof(cell));
        std::memcpy(reinterpret_cast<std::byte*>(&cell), input.data(), bytes);
        // The lap is right, so that more than the first look goes on.
        cell.stamp.store((layout.lap_of(number) + 1) << 8 | (cell.stamp.load() & 0xff));
        input = input.subspan(bytes);
    }
    ShmMessageLine line(memory, 1);
    MessageFrame frame;
    const std::byte* payload = nullptr;
    const auto within = [&](std::size_t begin, std::size_t size) {
        return payload >= base + begin && payload + frame.bytes <= base + begin + size;
    };
    try {
        for (std::size_t number = 0; line.take(frame, payload); ++number) {
            const bool has_payload = frame.kind == FrameKind::eager || frame.kind == FrameKind::piece;
            check(!has_payload || within(layout.cell(0, 1, number % layout.cells()), sizeof(MessageCell)) ||
                      within(layout.ring(0, 1), layout.ring_size()),
                  "a payload lies in its cell or its ring");
            line.release();
        }
    } catch (const LinkLost& lost) {
        check(lost.peer == 1, "the sender is to blame");
    }
}

void read_place(std::span<const std::uint8_t> input) {
    std::uint64_t words[4] = {};
    std::memcpy(words, input.data(), std::min(input.size(), sizeof(words)));
    const auto [offset, bytes, begin, size] = words;
    if (size > UINT64_MAX - begin || !lies_within(offset, bytes, begin, size)) return;
    check(offset >= begin && offset <= begin + size && bytes <= begin + size - offset, "lies within");
}

void read_record(std::span<const std::uint8_t> input) {
    NoticeReader reader;
    reader.add(std::as_bytes(input));
    while (const auto notice = reader.next()) {
        // What was taken is the same after its own bytes.
        NoticeReader again;
        const std::string bytes = encode(*notice);
        again.add(std::as_bytes(std::span(bytes)));
        check(again.next().has_value(), "a notice is none after its own bytes");
    }
}

}  // namespace
}  // namespace ddprun

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    ddprun::take_messages({data, size});
    ddprun::read_place({data, size});
    ddprun::read_record({data, size});
    return 0;
}
