#include "rendezvous/secure/sealed_records.hpp"

#include "rendezvous/base/error.hpp"

namespace ddprun {
inline namespace job {
namespace {

std::size_t record_length(std::string_view header) {
    return static_cast<unsigned char>(header[0]) |
           static_cast<std::size_t>(static_cast<unsigned char>(header[1])) << 8;
}

}  // namespace

std::string SealedRecords::seal(std::string_view plain) {
    std::string records;
    const std::size_t count = (plain.size() + kMaxRecordText - 1) / kMaxRecordText;
    records.reserve(plain.size() + count * (kRecordHeaderBytes + kNoiseTagBytes));
    while (!plain.empty()) {
        const std::string_view text = plain.substr(0, kMaxRecordText);
        const std::size_t length = text.size() + kNoiseTagBytes;
        records += static_cast<char>(length & 0xff);
        records += static_cast<char>(length >> 8);
        send_.encrypt(text, {}, records);
        plain.remove_prefix(text.size());
    }
    return records;
}

boost::system::result<std::string> SealedRecords::open(std::string_view bytes) {
    if (is_broken_) return Errc::protocol_violation;
    std::string joined;
    if (!unfinished_.empty()) {
        joined = std::move(unfinished_);
        unfinished_ = {};
        joined += bytes;
        bytes = joined;
    }
    std::string plain;
    while (bytes.size() >= kRecordHeaderBytes) {
        const std::size_t length = record_length(bytes);
        is_broken_ = length < kNoiseTagBytes;
        if (is_broken_) return Errc::protocol_violation;
        if (bytes.size() < kRecordHeaderBytes + length) break;
        is_broken_ = !receive_.decrypt(bytes.substr(kRecordHeaderBytes, length), {}, plain);
        if (is_broken_) return Errc::protocol_violation;
        bytes.remove_prefix(kRecordHeaderBytes + length);
    }
    unfinished_ = std::string(bytes);
    return plain;
}

}  // namespace job
}  // namespace ddprun
