#include "collectives/wire/frame.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace ddprun {
namespace {

static_assert(std::endian::native == std::endian::little,
              "frames and elements travel in this machine's byte order");

constexpr std::uint32_t kHelloMagic = 0x43504444;   // "DDPC"
constexpr std::uint32_t kHeaderMagic = 0x4d504444;  // "DDPM"
constexpr std::uint16_t kVersion = 3;

template <class T>
void put(std::span<std::byte> bytes, std::size_t offset, T value) {
    std::memcpy(bytes.data() + offset, &value, sizeof(value));
}

template <class T>
T take(std::span<const std::byte> bytes, std::size_t offset) {
    T value;
    std::memcpy(&value, bytes.data() + offset, sizeof(value));
    return value;
}

}  // namespace

std::string_view reason_of(HelloAnswer answer) noexcept {
    switch (answer) {
        case HelloAnswer::welcome: return "no reason";
        case HelloAnswer::other_job: return "it belongs to another job";
        case HelloAnswer::other_generation: return "it belongs to another restart of the job";
        case HelloAnswer::other_communicator: return "it belongs to another communicator";
        case HelloAnswer::other_rank: return "it was meant for another rank";
        case HelloAnswer::repeated: return "it has a connection from this rank already";
        case HelloAnswer::other_lane: return "the ranks agreed on fewer connections";
    }
    return "an unknown reason";
}

std::array<std::byte, kHelloSize> encode(const LinkHello& hello) {
    std::array<std::byte, kHelloSize> bytes{};
    put(bytes, 0, kHelloMagic);
    put(bytes, 4, kVersion);
    put(bytes, 6, static_cast<std::uint8_t>(hello.channel));
    put(bytes, 7, hello.lane);
    put(bytes, 8, hello.generation);
    put(bytes, 12, hello.communicator);
    put(bytes, 16, hello.from);
    put(bytes, 20, hello.to);
    put(bytes, 24, hello.nonce);
    return bytes;
}

std::optional<LinkHello> decode_hello(std::span<const std::byte, kHelloSize> bytes) {
    const auto channel = take<std::uint8_t>(bytes, 6);
    if (take<std::uint32_t>(bytes, 0) != kHelloMagic || take<std::uint16_t>(bytes, 4) != kVersion ||
        channel > static_cast<std::uint8_t>(Channel::data)) {
        return std::nullopt;
    }
    return LinkHello{static_cast<Channel>(channel),  take<std::uint32_t>(bytes, 8),
                     take<std::uint32_t>(bytes, 12), take<std::int32_t>(bytes, 16),
                     take<std::int32_t>(bytes, 20),  take<Nonce>(bytes, 24),
                     take<std::uint8_t>(bytes, 7)};
}

std::array<std::byte, kHelloAnswerSize> encode(HelloAnswer answer) {
    std::array<std::byte, kHelloAnswerSize> bytes{};
    put(bytes, 0, kHelloMagic);
    put(bytes, 4, static_cast<std::uint32_t>(answer));
    return bytes;
}

std::optional<HelloAnswer> decode_hello_answer(std::span<const std::byte, kHelloAnswerSize> bytes) {
    const auto answer = take<std::uint32_t>(bytes, 4);
    if (take<std::uint32_t>(bytes, 0) != kHelloMagic ||
        answer > static_cast<std::uint32_t>(HelloAnswer::other_lane)) {
        return std::nullopt;
    }
    return static_cast<HelloAnswer>(answer);
}

std::array<std::byte, kHeaderSize> encode_header(const Call& call) {
    const Call wire = on_wire(call);
    std::array<std::byte, kHeaderSize> bytes{};
    put(bytes, 0, kHeaderMagic);
    put(bytes, 4, static_cast<std::uint8_t>(wire.operation));
    put(bytes, 5, static_cast<std::uint8_t>(wire.type));
    put(bytes, 6, static_cast<std::uint8_t>(wire.reduce));
    put(bytes, 7, static_cast<std::uint8_t>(wire.compression));
    put(bytes, 8, wire.count);
    put(bytes, 16, wire.sequence);
    put(bytes, 24, wire.root);
    return bytes;
}

std::optional<Call> decode_header(std::span<const std::byte, kHeaderSize> bytes) {
    Call call;
    call.operation = static_cast<Operation>(take<std::uint8_t>(bytes, 4));
    call.type = static_cast<DataType>(take<std::uint8_t>(bytes, 5));
    call.reduce = static_cast<ReduceOp>(take<std::uint8_t>(bytes, 6));
    call.compression = static_cast<Compression>(take<std::uint8_t>(bytes, 7));
    call.count = take<std::uint64_t>(bytes, 8);
    call.sequence = take<std::uint64_t>(bytes, 16);
    call.root = take<std::int32_t>(bytes, 24);
    if (take<std::uint32_t>(bytes, 0) != kHeaderMagic || !is_known(call.operation) || !is_known(call.type) ||
        !is_known(call.reduce) || !is_known(call.compression)) {
        return std::nullopt;
    }
    return call;
}

}  // namespace ddprun
