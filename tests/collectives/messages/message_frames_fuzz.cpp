// libFuzzer's target for what a rank on another host may send as messages: any bytes as frames. However they
// are cut they say the same, and those that were taken are the same after their own bytes. An exchange that
// has sends and receives under way takes each of them, or says that its sender is to blame.
//
// An input is a byte that says how the rest is cut, and then the stream. Half of the changes put a whole
// frame in.
//
// Built with clang and -DDDPRUN_FUZZ=ON; run as: message_frames_fuzz -max_total_time=60
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <list>
#include <random>
#include <span>
#include <vector>

#include "collectives/messages/message_exchange.hpp"
#include "rendezvous/base/check.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace ddprun {

namespace {

using Stream = std::span<const std::uint8_t>;

bool has_payload(const MessageFrame& frame) {
    return frame.kind == FrameKind::eager || frame.kind == FrameKind::piece;
}

// Tells of each frame. Throws LinkLost.
template <class Take>
void each_frame(Stream stream, std::size_t piece, const Take& take) {
    MessageFrames frames(1);
    MessageFrame frame;
    const std::byte* payload = nullptr;
    while (!stream.empty()) {
        const std::span<std::byte> room = frames.room();
        check(!room.empty(), "there is room for the rest of a frame");
        const std::size_t count = std::min({piece, stream.size(), room.size()});
        std::memcpy(room.data(), stream.data(), count);
        frames.add(count);
        stream = stream.subspan(count);
        for (; frames.next(frame, payload); frames.release()) take(frame, payload);
    }
}

struct Heard {
    std::vector<std::byte> again;  // the frames, written anew
    bool is_broken = false;

    bool operator==(const Heard&) const = default;
};

Heard heard_in(Stream stream, std::size_t piece) {
    Heard heard;
    try {
        each_frame(stream, piece, [&](const MessageFrame& frame, const std::byte* payload) {
            put_frame(heard.again, frame, payload);
        });
    } catch (const LinkLost& lost) {
        check(lost.peer == 1, "the sender is to blame");
        heard.is_broken = true;
    }
    return heard;
}

// Takes all that it is told, up to a number of frames, and has what is said to it.
class DeafLine final : public MessageLine {
  public:
    bool put(const MessageFrame& frame, const std::byte* payload) override {
        if (frames_ == 0) return false;
        --frames_;
        std::vector<std::byte> bytes;
        if (has_payload(frame)) bytes.assign(payload, payload + frame.bytes);
        return true;
    }
    bool take(MessageFrame& frame, const std::byte*& payload) override {
        if (said_ == nullptr) return false;
        frame = *std::exchange(said_, nullptr);
        payload = payload_;
        return true;
    }
    void release() override {}
    bool is_ready() const noexcept override { return said_ != nullptr; }
    bool is_exhausted() override { return false; }
    std::size_t eager_limit() const noexcept override { return 64; }
    std::size_t piece_limit() const noexcept override { return 64; }
    void set_handed_on(std::uint64_t) override {}
    std::uint64_t handed_on_by_peer() override { return 0; }

    void say(const MessageFrame& frame, const std::byte* payload) {
        said_ = &frame;
        payload_ = payload;
    }

  private:
    int frames_ = 1'000;
    const MessageFrame* said_ = nullptr;
    const std::byte* payload_ = nullptr;
};

// Nobody waits here, or sleeps.
class NoSurroundings final : public MessageSurroundings {
  public:
    std::optional<Verdict> verdict() const override { return std::nullopt; }
    std::optional<std::uint64_t> left_after(int) const override { return std::nullopt; }
    Verdict declare(const Verdict& verdict) override { return verdict; }
    void on_news(std::function<void()>) override {}
    std::unique_ptr<MessageLine> connect(int) override {
        auto made = std::make_unique<DeafLine>();
        line = made.get();
        return made;
    }
    Copied copy_from(std::int32_t, std::uint64_t, void*, std::size_t) override { return Copied::refused; }
    void make_thread(std::function<void()>) override {}
    void join_threads() override {}
    void sleep_on(const std::atomic<std::uint32_t>&, std::uint32_t, Deadline) override {}
    void poll(std::vector<pollfd>&, Deadline) override {}
    void sleep_until_called(std::unique_lock<std::mutex>&) override {}
    void call_all() override {}
    void yield() override {}

    DeafLine* line = nullptr;
};

void exchange(Stream stream, std::size_t piece) {
    Membership membership;
    membership.members.resize(2);
    NoSurroundings surroundings;
    MessageSleepers sleepers(surroundings, nullptr, {});
    MessageExchange exchange({.membership = &membership}, std::chrono::milliseconds(0), surroundings,
                             sleepers);
    std::list<std::vector<std::byte>> buffers;
    std::list<MessageOperation> operations;
    for (std::uint64_t i = 0; i < 16; ++i) {
        // Of each two a send and a receive, by tag and in turn; none, few bytes, and more than goes at once.
        const std::size_t bytes = std::array<std::size_t, 4>{0, 8, 64, 200}[i / 4];
        std::vector<std::byte>& buffer = buffers.emplace_back(bytes);
        MessageRequest request{.sends = i % 2 == 0, .bytes = bytes, .peer = 1, .tag = i % 4 / 2};
        (request.sends ? const_cast<void*&>(request.in) : request.out) = buffer.data();
        if (i % 4 == 3) request.element = 1;
        exchange.begin(operations.emplace_back(request));
    }
    std::mutex mutex;
    MessageExchange::Lock lock(mutex);
    try {
        each_frame(stream, piece, [&](const MessageFrame& frame, const std::byte* payload) {
            if (frame.kind == FrameKind::credit) return;
            surroundings.line->say(frame, payload);
            exchange.progress(lock);
        });
    } catch (const LinkLost&) {
    }
    // Before what it works for goes away.
    exchange.end();
}

}  // namespace
}  // namespace ddprun

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const ddprun::Stream stream(data + 1, size - 1);
    const std::size_t piece = std::size_t{data[0]} + 1;
    const ddprun::Heard whole = ddprun::heard_in(stream, size);
    ddprun::check(ddprun::heard_in(stream, piece) == whole, "what frames say depends on how they were cut");
    ddprun::check(whole.again.size() <= stream.size() &&
                      std::equal(whole.again.begin(), whole.again.end(), std::as_bytes(stream).begin()),
                  "a frame is another one after its own bytes");
    ddprun::exchange(stream, piece);
    return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
    std::minstd_rand random(seed);
    if (size == 0 || random() % 2 == 0) return LLVMFuzzerMutate(data, size, max_size);
    ddprun::MessageFrame frame{.kind = static_cast<ddprun::FrameKind>(1 + random() % 7),
                               .id = static_cast<std::uint32_t>(random() % 4),
                               .turn = static_cast<std::uint32_t>(random() % 4),
                               .tag = random() % 3,
                               .bytes = random() % 300,
                               .element = static_cast<std::uint8_t>(random() % 2)};
    const std::vector<std::byte> payload(300);
    std::vector<std::byte> bytes;
    ddprun::put_frame(bytes, frame, payload.data());
    if (size + bytes.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
    std::memcpy(data + size, bytes.data(), bytes.size());
    return size + bytes.size();
}
