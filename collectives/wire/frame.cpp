#include "collectives/wire/frame.hpp"

#include <fmt/core.h>
#include <sodium.h>

#include <bit>
#include <cstring>
#include <string_view>

#include "collectives/call/checked_task.hpp"
#include "rendezvous/system/machine.hpp"

namespace ddprun {
inline namespace detail {

namespace {

static_assert(std::endian::native == std::endian::little,
              "frames and elements travel in this machine's byte order");

constexpr std::uint32_t kHelloMagic = 0x43504444;   // "DDPC"
constexpr std::uint32_t kHeaderMagic = 0x4d504444;  // "DDPM"
constexpr std::uint16_t kVersion = 4;

// The frames, member by member as they travel.
struct HelloFrame {
    std::uint32_t magic;
    std::uint16_t version;
    Channel channel;
    std::uint8_t lane;
    std::uint32_t round;
    std::uint32_t communicator;
    std::int32_t from;
    std::int32_t to;
    Nonce nonce;
    std::uint32_t has_key;
    Nonce challenge;
};

struct AnswerFrame {
    std::uint32_t magic;
    HelloAnswer answer;
};

struct HeaderFrame {
    std::uint32_t magic;
    Operation operation;
    DataType type;
    ReduceOp reduce;
    Compression compression;
    std::uint64_t count;
    std::uint64_t sequence;
    std::int32_t root;
    std::uint32_t zero;
};

template <class Frame>
std::array<std::byte, sizeof(Frame)> frame_bytes(const Frame& frame) {
    static_assert(std::has_unique_object_representations_v<Frame>);
    return std::bit_cast<std::array<std::byte, sizeof(Frame)>>(frame);
}

template <class Frame>
Frame read_frame(std::span<const std::byte, sizeof(Frame)> bytes) {
    Frame frame;
    std::memcpy(&frame, bytes.data(), sizeof(frame));
    return frame;
}

constexpr std::string_view kDialledLabel = "ddprun mesh dialled 1";
constexpr std::string_view kDiallerLabel = "ddprun mesh dialler 1";

static_assert(SecretKey::kBytes >= crypto_generichash_KEYBYTES_MIN &&
              SecretKey::kBytes <= crypto_generichash_KEYBYTES_MAX && kProofSize == crypto_generichash_BYTES);

void add_to_hash(crypto_generichash_state& state, const void* bytes, std::size_t size) {
    crypto_generichash_update(&state, static_cast<const unsigned char*>(bytes), size);
}

}  // namespace

Nonce random_nonce() { return random_bytes<std::tuple_size_v<Nonce>>("a nonce"); }

std::string_view reason_of(HelloAnswer answer) noexcept {
    switch (answer) {
        case HelloAnswer::welcome: return "no reason";
        case HelloAnswer::other_job: return "it belongs to another job";
        case HelloAnswer::other_round: return "it belongs to another restart of the job";
        case HelloAnswer::other_communicator: return "it belongs to another communicator";
        case HelloAnswer::other_rank: return "it was meant for another rank";
        case HelloAnswer::repeated: return "it has a connection from this rank already";
        case HelloAnswer::other_lane: return "the ranks agreed on fewer connections";
        case HelloAnswer::key_wanted: return "it has a DDPRUN_MESH_KEY, and the caller has none";
        case HelloAnswer::key_unknown: return "it has no DDPRUN_MESH_KEY, and the caller has one";
        case HelloAnswer::prove: return "it wants the proof of DDPRUN_MESH_KEY";
    }
    return "an unknown reason";
}

std::array<std::byte, kHelloSize> encode(const LinkHello& hello) {
    return frame_bytes(HelloFrame{kHelloMagic, kVersion, hello.channel, hello.lane, hello.round,
                                  hello.communicator, hello.from, hello.to, hello.nonce,
                                  hello.challenge ? 1U : 0U, hello.challenge.value_or(Nonce{})});
}

std::optional<LinkHello> decode_hello(std::span<const std::byte, kHelloSize> bytes) {
    const auto frame = read_frame<HelloFrame>(bytes);
    if (frame.magic != kHelloMagic || frame.version != kVersion || frame.channel > Channel::messages ||
        frame.has_key > 1)
        return std::nullopt;
    return LinkHello{frame.channel,      frame.round,
                     frame.communicator, frame.from,
                     frame.to,           frame.nonce,
                     frame.lane,         frame.has_key == 1 ? std::optional(frame.challenge) : std::nullopt};
}

std::array<std::byte, kHelloAnswerSize> encode(HelloAnswer answer) {
    return frame_bytes(AnswerFrame{kHelloMagic, answer});
}

std::optional<HelloAnswer> decode_hello_answer(std::span<const std::byte, kHelloAnswerSize> bytes) {
    const auto frame = read_frame<AnswerFrame>(bytes);
    if (frame.magic != kHelloMagic || frame.answer > HelloAnswer::prove) return std::nullopt;
    return frame.answer;
}

std::array<std::byte, kHeaderSize> encode_header(const Call& call) {
    return frame_bytes(HeaderFrame{kHeaderMagic, call.operation, call.type, call.reduce, call.compression,
                                   call.count, call.sequence, call.root, 0});
}

std::optional<Call> decode_header(std::span<const std::byte, kHeaderSize> bytes) {
    const auto frame = read_frame<HeaderFrame>(bytes);
    if (frame.magic != kHeaderMagic || !is_known(frame.operation) || !is_known(frame.type) ||
        !is_known(frame.reduce) || !is_known(frame.compression)) {
        return std::nullopt;
    }
    return Call{frame.operation, frame.type,     frame.reduce,     frame.root,
                frame.count,     frame.sequence, frame.compression};
}

Nonce derived_nonce(const Nonce& nonce, std::string_view text) {
    Nonce derived;
    crypto_generichash(derived.data(), derived.size(), reinterpret_cast<const unsigned char*>(text.data()),
                       text.size(), nonce.data(), nonce.size());
    return derived;
}

MeshProof make_proof(const SecretKey& key, MeshSide side, const HelloBytes& hello, const Nonce& challenge) {
    const std::string_view label = side == MeshSide::dialled ? kDialledLabel : kDiallerLabel;
    MeshProof proof;
    crypto_generichash_state state;
    crypto_generichash_init(&state, key.data(), SecretKey::kBytes, proof.size());
    add_to_hash(state, label.data(), label.size());
    add_to_hash(state, hello.data(), hello.size());
    add_to_hash(state, challenge.data(), challenge.size());
    crypto_generichash_final(&state, reinterpret_cast<unsigned char*>(proof.data()), proof.size());
    sodium_memzero(&state, sizeof(state));
    return proof;
}

bool is_proof(const MeshProof& proof, const SecretKey& key, MeshSide side, const HelloBytes& hello,
              const Nonce& challenge) {
    const MeshProof right = make_proof(key, side, hello, challenge);
    return sodium_memcmp(proof.data(), right.data(), right.size()) == 0;
}

std::array<std::byte, kOfferSize> encode(const MeshOffer& offer) { return frame_bytes(offer); }

MeshOffer decode_offer(const std::array<std::byte, kOfferSize>& bytes) {
    return std::bit_cast<MeshOffer>(bytes);
}

std::optional<SecretKey> read_mesh_key(const Environment& environment) {
    const std::string* text = find_variable(environment, kMeshKeyVariable);
    if (text == nullptr) return std::nullopt;
    auto key = parse_secret_key(*text);
    if (key) return key;
    refuse("join", fmt::format("{} in the environment is not {} hexadecimal digits", kMeshKeyVariable,
                               2 * SecretKey::kBytes));
}

}  // namespace detail
}  // namespace ddprun
