// libFuzzer's target for sealed conversations: any bytes, as a call, an answer or records; nobody without the
// key is ever believed, however the bytes are cut, and no more than a record is kept.
//
// Built with clang and -DDDPRUN_FUZZ=ON; run as: sealed_fuzz -max_total_time=60
#include <algorithm>

#include "rendezvous/base/check.hpp"
#include "rendezvous/secure/noise_handshake.hpp"
#include "rendezvous/secure/sealed_connection.hpp"
#include "rendezvous/secure/sealed_records.hpp"

namespace ddprun {
namespace {

const SecretKey& fixed_key() {
    static const SecretKey kKey(std::string(SecretKey::kBytes, 'k'));
    return kKey;
}

// The input's first byte says how the rest is cut; before it comes what was really sealed, so that the stream
// begins well.
void read_records(std::string_view input, std::size_t piece) {
    const NoiseKeys keys{fixed_key(), fixed_key(), {}};
    SealedRecords sender(keys), reader(keys);
    const std::string stream = sender.seal("genuine") + std::string(input);
    std::string plain;
    bool is_broken = false;
    for (std::string_view rest = stream; !rest.empty();) {
        const std::string_view next = rest.substr(0, piece);
        const auto opened = reader.open(next);
        is_broken = !opened;
        if (is_broken) break;
        plain += *opened;
        check(reader.buffered() <= 2 * (kMaxSealedRecord + kRecordHeaderBytes), "more than a record is kept");
        rest.remove_prefix(next.size());
    }
    // What came along with a broken record goes with it.
    check(plain == "genuine" || (is_broken && plain.empty()),
          "what nobody has sealed was believed, or what was sealed was not");
}

void greet(std::string_view input) {
    std::string call = std::string(kSealedMagic) + std::string(input);
    call.resize(kSealedCallBytes, '\0');
    const auto answer = answer_sealed_call(call, fixed_key(), SecretKey::fresh);
    check(answer.proof != Proof::given, "a caller without the key was let in");
    SealedCall caller(SealedPurpose::agent, fixed_key(), fixed_key());
    check(!caller.learn(input.substr(0, kNoiseHandshakeBytes)).keys, "a host without the key was believed");
}

}  // namespace
}  // namespace ddprun

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
    ddprun::read_records(input, std::size_t{data[0]} + 1);
    ddprun::greet(input);
    return 0;
}
