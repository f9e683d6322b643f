#include "collectives/liveness/lifeline_frame.hpp"

#include <algorithm>
#include <cstring>

#include "rendezvous/codec/binary_codec.hpp"

namespace ddprun::inline detail {

// As it travels, which is not the order of the struct.
BOOST_DESCRIBE_STRUCT(Call, (), (operation, type, reduce, compression, root, count, sequence))
BOOST_DESCRIBE_STRUCT(LeftNotice, (), (rank, sequence))
BOOST_DESCRIBE_STRUCT(InquiryNotice, (), (inquiry, sequence))
BOOST_DESCRIBE_STRUCT(ProgressNotice, (), (rank, inquiry, call, asked))
BOOST_DESCRIBE_STRUCT(QuestionNotice, (), (rank, round, call))

namespace {

constexpr std::size_t kPrefixSize = 4;

std::string payload_of(const Verdict& verdict) {
    BinaryWriter<PlainNumbers> write;
    const std::size_t culprits = std::min(verdict.culprits.size(), kMaxNoticeCulprits);
    write(static_cast<std::uint8_t>(verdict.code));
    write(static_cast<std::uint8_t>(culprits));
    for (std::size_t i = 0; i < culprits; ++i) write(verdict.culprits[i]);
    return write.take().append(std::string_view(verdict.text).substr(0, kMaxNoticeText));
}

bool read_payload(std::string_view payload, Verdict& verdict) {
    BinaryReader<PlainNumbers> read(payload);
    std::uint8_t code = 0;
    std::uint8_t culprits = 0;
    read(code), read(culprits);
    for (int i = 0; i < culprits; ++i) read(verdict.culprits.emplace_back());
    verdict.code = static_cast<CollectiveErrorCode>(code);
    verdict.text = read.rest();
    return !read.failed() && code <= static_cast<std::uint8_t>(CollectiveErrorCode::system);
}

template <Described Message>
std::string payload_of(const Message& message) {
    return to_bytes<PlainNumbers>(message);
}

template <Described Message>
bool read_payload(std::string_view payload, Message& message) {
    return from_bytes<PlainNumbers>(payload, message);
}

std::optional<Notice> notice_of(std::uint8_t kind, std::string_view payload) {
    std::optional<Notice> notice;
    boost::mp11::mp_for_each<boost::mp11::mp_iota_c<std::variant_size_v<Notice>>>([&](auto index) {
        std::variant_alternative_t<index, Notice> message;
        if (kind == index && read_payload(payload, message)) notice = std::move(message);
    });
    return notice;
}

}  // namespace

std::string encode(const Notice& notice) {
    const std::string payload = std::visit([](const auto& n) { return payload_of(n); }, notice);
    BinaryWriter<PlainNumbers> write;
    write(static_cast<std::uint8_t>(notice.index()));
    write(std::uint8_t{0});
    write(static_cast<std::uint16_t>(payload.size()));
    return write.take() + payload;
}

void NoticeReader::add(std::span<const std::byte> bytes) {
    if (!broken_) bytes_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::optional<Notice> NoticeReader::next() {
    if (broken_ || bytes_.size() < kPrefixSize) return std::nullopt;
    const auto kind = static_cast<std::uint8_t>(bytes_[0]);
    std::uint16_t length = 0;
    std::memcpy(&length, bytes_.data() + 2, sizeof(length));
    if (length > kMaxNoticePayload) {
        broken_ = true;
        return std::nullopt;
    }
    if (bytes_.size() < kPrefixSize + length) return std::nullopt;
    auto notice = notice_of(kind, std::string_view(bytes_).substr(kPrefixSize, length));
    bytes_.erase(0, kPrefixSize + length);
    broken_ = !notice;
    return notice;
}

}  // namespace ddprun::inline detail
