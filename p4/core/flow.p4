/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * flow.p4 - the way of a packet, as body of the main control of each architecture, which defines before it includes this:
 *
 *   COUNT(fate)       counts the packet             USE_SLOT(slot)   marks a session as used
 *   NEXT_ID(to)       the next IPv4 identification  LEARN            a stage for MODE_LEARN
 *   PACKET_IS_WHOLE   the parser saw no end         IN_PORT
 *
 *   neighbours → local? → check → echo → stateless | sessions | LEARN → next hop → write
 *
 * A stage looks at the packet only if none before it has decided its fate.
 */
    hdr.work.setValid();
    hdr.work.fate = UNDECIDED;
    m.in_port = IN_PORT;
    hdr.work.out_port = m.in_port;
    settings.apply();
    if ((m.in_port & 1) == 1) {
        hdr.work.fate = FROM_KERNEL;
    } else if (hdr.work.mode == MODE_OFF) {
        hdr.work.fate = DECLINED_OFF;
    } else if (!(PACKET_IS_WHOLE)) {
        hdr.work.fate = DECLINED_LENGTH;
    } else if (hdr.arp.isValid() || hdr.nd.isValid()) {
        neighbours.apply(hdr);
    } else {
        local_mac.apply();
        if (hdr.work.found == 0) {
            hdr.work.fate = DECLINED_NOT_LOCAL;
        } else if (hdr.ipv4.isValid()) {
            checked4.apply(hdr);
        } else if (hdr.ipv6.isValid()) {
            checked6.apply(hdr);
        } else {
            hdr.work.fate = DECLINED_ETHERTYPE;
        }
        if (hdr.work.mode == MODE_STATELESS_NO_SYN) {
            /* A SYN may have its MSS behind any options, which no target walks: the slow path lowers it. */
            hdr.work.mode = MODE_STATELESS;
            if (hdr.work.fate == UNDECIDED && (hdr.work.syn_fin_rst & TCP_SYN) != 0) {
                hdr.work.fate = DECLINED_TCP_FLAGS;
            }
        }
        if (hdr.work.fate == UNDECIDED) {
            echo.apply(hdr);
        }
        if (hdr.work.fate == UNDECIDED) {
            if (hdr.work.mode == MODE_STATELESS) {
                mapped.apply(hdr);
            } else if (hdr.work.mode == MODE_SESSIONS) {
                known.apply(hdr);
            } else {
                LEARN
            }
        }
        if (hdr.work.fate == UNDECIDED) {
            hop.apply(hdr);
        }
        if (hdr.work.fate == UNDECIDED) {
            USE_SLOT(hdr.work.slot)
            if (hdr.work.is6 == 1) {
                NEXT_ID(hdr.work.ip_id)
                written4.apply(hdr);
                hdr.work.fate = TRANSLATED_6TO4;
            } else {
                written6.apply(hdr);
                hdr.work.fate = TRANSLATED_4TO6;
            }
        }
    }
    COUNT(hdr.work.fate)
    /* An answer leaves where the question came from; what is declined by the other port of the pair. */
    if (hdr.work.fate > TRANSLATED_4TO6 && (hdr.work.fate < ANSWERED_ARP || hdr.work.fate > ANSWERED_ECHO6)) {
        hdr.work.out_port = m.in_port ^ 1;
    } else if (hdr.work.fate > TRANSLATED_4TO6) {
        hdr.work.out_port = m.in_port;
    }
