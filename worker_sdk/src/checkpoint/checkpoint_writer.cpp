// SPDX-License-Identifier: Apache-2.0
#include "ddprun/checkpoint_writer.hpp"

#include "ddprun/error.hpp"
#include "worker_sdk/src/checkpoint/format.hpp"
#include "worker_sdk/src/start_thread.hpp"

#include <condition_variable>
#include <cstdio>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace ddprun {

namespace {

/// Copies them, since the program may change the memory behind a view before it is written.
void copy_views(Checkpoint& checkpoint) {
    if (const auto valid = checkpoint::check_types(checkpoint.views); !valid)
        throw UsageError("the checkpoint cannot be written: " + valid.error().context);
    for (auto& view : std::exchange(checkpoint.views, {}))
        checkpoint::with_type(view.type, [&]<class T>(T) {
            const auto* const values = static_cast<const T*>(view.values);
            checkpoint.tensors.push_back(
                {std::move(view.name),
                 {view.count},
                 std::vector<T>(values, values + view.count),
                 view.part});
        });
}

}  // namespace

class CheckpointWriter::State {
public:
    explicit State(CheckpointFolder folder)
        : folder_(std::move(folder)),
          thread_(start_thread([this] { serve(); })) {}

    ~State() {
        {
            const std::lock_guard lock(mutex_);
            is_closing_ = true;
        }
        changed_.notify_all();
        thread_.join();
        if (error_text_) std::fprintf(stderr, "ddprun: %s\n", error_text_->c_str());
    }

    void save(Checkpoint checkpoint) {
        std::optional<std::string> error_text;
        {
            const std::lock_guard lock(mutex_);
            waiting_ = std::move(checkpoint);
            error_text = std::exchange(error_text_, std::nullopt);
        }
        changed_.notify_all();
        if (error_text) throw Error(*error_text);
    }

    std::string wait() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !waiting_ && !is_writing_; });
        if (auto error_text = std::exchange(error_text_, std::nullopt)) throw Error(*error_text);
        return written_;
    }

private:
    void serve() {
        while (auto checkpoint = next()) {
            auto error_text = write(*checkpoint);
            checkpoint.reset();  // frees its memory before the write is reported
            {
                const std::lock_guard lock(mutex_);
                is_writing_ = false;
                if (error_text) error_text_ = std::move(error_text);
            }
            changed_.notify_all();
        }
    }

    std::optional<Checkpoint> next() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return waiting_ || is_closing_; });
        is_writing_ = waiting_.has_value();
        return std::exchange(waiting_, std::nullopt);
    }

    std::optional<std::string> write(const Checkpoint& checkpoint) {
        try {
            auto path = folder_.save(checkpoint);
            const std::lock_guard lock(mutex_);
            written_ = std::move(path);
            return std::nullopt;
        } catch (const std::exception& error) {
            return error.what();
        }
    }

    const CheckpointFolder folder_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::optional<Checkpoint> waiting_;
    bool is_writing_ = false;
    bool is_closing_ = false;
    std::string written_;
    std::optional<std::string> error_text_;
    std::thread thread_;  // last: it uses all other members
};

CheckpointWriter::CheckpointWriter(CheckpointFolder folder)
    : state_(std::make_unique<State>(std::move(folder))) {}

CheckpointWriter::~CheckpointWriter() = default;

void CheckpointWriter::save(Checkpoint checkpoint) {
    copy_views(checkpoint);
    state_->save(std::move(checkpoint));
}

std::string CheckpointWriter::wait() {
    return state_->wait();
}

}  // namespace ddprun
