// libFuzzer's target for the first bytes on a connection of the collectives: any bytes, as a Hello, an answer
// to it, an offer, a proof and the header of a message. What was taken is the same after its own bytes, and
// nobody without the key has proven it.
//
// Built with clang and -DDDPRUN_FUZZ=ON; run as: hello_fuzz -max_total_time=60
#include <algorithm>
#include <cstdint>
#include <string>

#include "collectives/wire/frame.hpp"
#include "rendezvous/base/check.hpp"

namespace ddprun {
namespace {

const SecretKey& fixed_key() {
    static const SecretKey kKey(std::string(SecretKey::kBytes, 'k'));
    return kKey;
}

// The input's first bytes, with zeros behind where they are too few.
template <std::size_t size>
std::array<std::byte, size> begin_of(std::span<const std::uint8_t> input) {
    std::array<std::byte, size> bytes{};
    std::transform(input.begin(), input.begin() + static_cast<std::ptrdiff_t>(std::min(size, input.size())),
                   bytes.begin(), [](std::uint8_t byte) { return std::byte{byte}; });
    return bytes;
}

void read_hello(std::span<const std::uint8_t> input) {
    const auto bytes = begin_of<kHelloSize>(input);
    const auto hello = decode_hello(bytes);
    if (!hello) return;
    check(decode_hello(encode(*hello)) == hello, "a Hello is another one after its own bytes");
    // What stands behind it claims to prove it.
    const auto behind = input.subspan(std::min(input.size(), kHelloSize));
    const MeshOffer offer = decode_offer(begin_of<kOfferSize>(behind));
    for (const MeshSide side : {MeshSide::dialled, MeshSide::dialler})
        check(!is_proof(offer.proof, fixed_key(), side, bytes, offer.challenge), "a proof without the key");
    check(encode(offer) == begin_of<kOfferSize>(behind), "an offer is another one after its own bytes");
}

void read_others(std::span<const std::uint8_t> input) {
    if (const auto answer = decode_hello_answer(begin_of<kHelloAnswerSize>(input))) {
        check(encode(*answer) == begin_of<kHelloAnswerSize>(input),
              "an answer is another one after its own bytes");
        check(!reason_of(*answer).empty(), "an answer without a reason");
    }
    const auto call = decode_header(begin_of<kHeaderSize>(input));
    if (call)
        check(decode_header(encode_header(*call)) == *call, "a header is another one after its own bytes");
    if (const auto key = parse_secret_key({reinterpret_cast<const char*>(input.data()), input.size()}))
        check(parse_secret_key(hex_of(*key)) == key, "a key is another one after its own text");
}

}  // namespace
}  // namespace ddprun

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    ddprun::read_hello({data, size});
    ddprun::read_others({data, size});
    return 0;
}
